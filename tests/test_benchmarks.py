"""Benchmarks start, run their smallest case and print what they promise; nothing is timed here."""

import ast
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.zoo.training.video.sentences import lexicon

FOLDER = Path(__file__).parents[1] / "benchmarks"
SMALLEST = [
    pytest.param("fidelity_speed.py", ("--pairs", "1"), "times", marks=()),
    pytest.param(
        "recording_overhead.py",
        ("--rounds", "2", "--steps", "2", "--card", "cost"),
        "cards/cost.json",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        "regimes.py",
        (
            "embedded:qwen-image",
            "--only",
            "BF16",
            "--steps",
            "0",
            "--load-steps",
            "2",
            "--alone",
            "1",
            "--rounds",
            "1",
            "--concurrency",
            "1",
            "--kernels",
        ),
        "GEMM",
        marks=pytest.mark.slow,
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
    pytest.param(
        "planted_fault.py",
        ("--prompts", "1", "--steps", "4"),
        "worst by jitter: fault, noise 45 dB\nbest by mean PSNR: fault, noise 45 dB",
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
    scripts = [one for one in FOLDER.glob("*.py") if "__main__" in one.read_text()]
    assert len(scripts) > 5
    for script in scripts:
        assert f"python benchmarks/{script.name}" in script.read_text()


GROUPS = re.findall(r"^        ([a-z][\w-]*)\)", (FOLDER / "h200.sh").read_text(), re.MULTILINE)


@pytest.mark.parametrize("group", GROUPS)
def test_the_gpu_script_asks_only_what_the_benchmarks_take(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["bash", str(FOLDER / "h200.sh"), "0", str(tmp_path), group]
    subprocess.run(command, env={**os.environ, "PYTHON": "echo"}, check=True, capture_output=True)
    monkeypatch.syspath_prepend(FOLDER)
    lines = [line for file in tmp_path.glob("*.txt") for line in file.read_text().splitlines()]
    asked = [line.split() for line in lines if line.startswith("benchmarks/")]
    assert asked
    for script, *arguments in asked:
        monkeypatch.setattr(sys, "argv", [script, *arguments])
        importlib.import_module(Path(script).stem)._options()


@pytest.mark.parametrize(
    ("asked", "concurrency", "requests"),
    [
        ([], 1, 6),  # as many rounds as an interval takes
        ([], 4, 24),
        ([], 16, 96),
        (["--most", "48"], 8, 48),
        (["--most", "48"], 16, 48),  # three full rounds
        (["--most", "20"], 8, 16),  # two, not two and a half
        (["--most", "3"], 8, 8),  # one at least
        (["--rounds", "1"], 8, 16),
        (["--rounds", "1", "--alone", "3"], 1, 3),
    ],
)
def test_a_load_has_full_rounds(
    asked: list[str], concurrency: int, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    regimes = importlib.import_module("regimes")
    monkeypatch.setattr(sys, "argv", ["regimes.py", "FLUX.1-dev", *asked])
    assert regimes._requests(regimes._options(), concurrency) == requests
