"""One small population at every precision, drawn once by the real engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench as wb
from workbench.records import Checkpoint, GenerationSet

PROMPTS = ("a teapot", "a car")
STARTERS = (
    "workbench.serve.omni.start",
    "workbench.serve.plain.PlainDiffusers.__init__",
    "workbench.serve.server_session.ServerProcess",
)
"""What loads a model or starts a process; all forms of a launch go through one of them."""
STEPS = wb.Sampling(num_inference_steps=3)


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on the test fails where a model is loaded or a process started."""
    for name in STARTERS:
        monkeypatch.setattr(name, lambda *_, started=name, **__: pytest.fail(f"{started} ran"))


@pytest.fixture(scope="session")
def w4a16(tiny_qwen: Path, shared_runs: Path) -> Iterator[Checkpoint]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(shared_runs))
        recipe = wb.QuantRecipe(method="auto-round", scheme="W4A16")
        yield wb.quantize(str(tiny_qwen), recipe)


@pytest.fixture(scope="session")
def sets(
    tiny_qwen: Path, w4a16: Checkpoint, shared_runs: Path
) -> Iterator[dict[str, GenerationSet]]:
    """Precision -> set, all launched one after the other in this process; BF16 twice."""
    launches = {
        "BF16": (str(tiny_qwen), {}),
        "FP8": (str(tiny_qwen), {"quantization": "fp8"}),
        "INT8": (str(tiny_qwen), {"quantization": "int8"}),
        "W4A16": (w4a16, {}),
        "BF16 repeat": (str(tiny_qwen), {"repeat": 1}),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(shared_runs))
        yield {
            name: wb.generate(model, PROMPTS, sampling=STEPS, **options)
            for name, (model, options) in launches.items()
        }
