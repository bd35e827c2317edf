"""Benchmarks start, run their smallest case and print what they promise; nothing is timed here."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.zoo.training.video.sentences import lexicon

FOLDER = Path(__file__).parents[1] / "benchmarks"
SMALLEST = [
    pytest.param("fidelity_speed.py", ("--pairs", "1"), "times", marks=()),
    pytest.param(
        "recording_overhead.py", ("--rounds", "2", "--steps", "2"), "of 2", marks=pytest.mark.slow
    ),
    pytest.param(
        "population.py",
        ("--prompts", "1", "--seeds", "1", "--steps", "2", "--iters", "1"),
        "run card",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        "population.py",
        (
            "embedded:wan",
            "--prompts",
            "2",
            "--seeds",
            "1",
            "--steps",
            "2",
            "--iters",
            "1",
            "--first-frames",
            "--card",
            "clips",
        ),
        "cards/clips.json",
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize(("script", "arguments", "said"), SMALLEST)
def test_it_runs_in_its_smallest_case(
    script: str, arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    env = {**os.environ, "WORKBENCH_RUNS": str(tmp_path / "runs")}
    command = [sys.executable, str(FOLDER / script), *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert said in done.stdout


def test_prompts_are_what_the_model_knows_and_not_those_of_calibration() -> None:
    asked = "import every_recipe; print(*every_recipe.prompts_of({!r}), sep=chr(10))"
    for model in ("embedded:wan", "embedded:qwen-image"):
        done = subprocess.run(
            [sys.executable, "-c", asked.format(model)],
            cwd=FOLDER, capture_output=True, text=True, check=True,
        )  # fmt: skip
        judged, others = map(ast.literal_eval, done.stdout.splitlines())
        assert len(judged) == len(others) == 8
        assert not set(judged) & set(others)
        if model == "embedded:wan":
            assert set(" ".join(judged + others).split()) <= lexicon()


def test_every_benchmark_says_how_it_is_run() -> None:
    for script in FOLDER.glob("*.py"):
        assert f"python benchmarks/{script.name}" in script.read_text()
