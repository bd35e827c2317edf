"""Benchmarks start, run their smallest case and print what they promise; nothing is timed here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
SMALLEST = [
    pytest.param("fidelity_speed.py", ("--pairs", "1"), "times", marks=()),
    pytest.param("recording_overhead.py", ("1",), "1 rounds", marks=pytest.mark.slow),
    pytest.param(
        "population.py",
        ("--prompts", "1", "--seeds", "1", "--steps", "2", "--iters", "1"),
        "run card",
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


def test_every_benchmark_says_how_it_is_run() -> None:
    for script in FOLDER.glob("*.py"):
        assert f"python benchmarks/{script.name}" in script.read_text()
