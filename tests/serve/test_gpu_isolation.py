"""What a GPU holds after a close and after a death: the bare context inline, nothing beside it.

The model is wide, so that its weights are far above all that libraries and NVML differ by.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import workbench as wb
from workbench.errors import LaunchFailed
from workbench.provenance import gpu_bytes_used
from workbench.zoo.tiny import build_tiny
from workbench.zoo.weights import weight_bytes

pytestmark = pytest.mark.gpu
MIB = 2**20
WEIGHTS = 1024 * MIB
LIBRARIES = 512 * MIB
"""Code of kernels and handles of libraries, which the driver keeps as long as a context lives."""
TABLES = 64 * MIB
"""Rotary tables of up to 16 modules, which vLLM-Omni caches, and the allocator's block of them."""
NOISE = 16 * MIB
"""What NVML's count of an idle device moves by."""
WITHIN_S = 20.0
STEPS = wb.Sampling(num_inference_steps=2)
ALONE = """
import json, sys
from pathlib import Path
import torch
import workbench as wb
from workbench.provenance import gpu_bytes_used

def draw():
    with wb.launch(sys.argv[1], isolation=sys.argv[2]) as engine:
        engine.generate("a teapot", sampling=wb.Sampling(num_inference_steps=2), force=True)
        return gpu_bytes_used()[0]

if __name__ == "__main__":
    facts = {"without a context": gpu_bytes_used()[0]}
    if sys.argv[2] == "inline":
        torch.zeros(1, device="cuda")
        torch.cuda.empty_cache()
    facts["before"] = gpu_bytes_used()[0]
    for number in ("first", "second"):
        facts[f"in the {number}"] = draw()
        facts[f"after the {number}"] = gpu_bytes_used()[0]
    facts["reserved"] = torch.cuda.memory_reserved() if torch.cuda.is_initialized() else 0
    Path(sys.argv[3]).write_text(json.dumps(facts))
"""


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "wide"
    build_tiny("qwen-image", folder, layers=1, heads=32)
    assert weight_bytes(folder)["transformer"] > WEIGHTS
    return folder


def alone(folder: Path, isolation: str, file: Path) -> dict[str, int]:
    """Bytes on the device around two launches of a process that does nothing else."""
    subprocess.run([sys.executable, "-c", ALONE, str(folder), isolation, str(file)], check=True)
    facts = json.loads(file.read_text())
    assert facts["in the first"] - facts["before"] > WEIGHTS, facts
    assert facts["in the second"] - facts["before"] > WEIGHTS, facts
    return facts


def test_a_close_inline_leaves_the_bare_context(wide: Path, runs: Path, tmp_path: Path) -> None:
    facts = alone(wide, "inline", tmp_path / "facts.json")
    assert facts["before"] > facts["without a context"], facts
    assert facts["reserved"] < TABLES, facts  # no weights are in torch's allocator
    assert facts["after the first"] - facts["before"] < LIBRARIES, facts
    assert facts["after the second"] - facts["after the first"] < NOISE, facts


def test_a_close_of_a_process_leaves_nothing(wide: Path, runs: Path, tmp_path: Path) -> None:
    facts = alone(wide, "process", tmp_path / "facts.json")
    assert facts["after the first"] - facts["before"] < NOISE, facts
    assert facts["after the second"] - facts["before"] < NOISE, facts


def comes_back_to(before: int) -> bool:
    """Whether the driver has taken back what a dead process held, which it does beside us."""
    until = time.monotonic() + WITHIN_S
    while gpu_bytes_used()[0] - before >= NOISE:
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def test_a_killed_worker_leaves_nothing_and_the_next_launch_works(wide: Path, runs: Path) -> None:
    before = gpu_bytes_used()[0]
    with wb.launch(str(wide), isolation="process") as engine:
        first = engine.generate("a teapot", sampling=STEPS)
        assert gpu_bytes_used()[0] - before > WEIGHTS
        (worker,) = engine._workers
        worker.kill()
        began = time.monotonic()
        with pytest.raises(LaunchFailed, match="the same call goes on with a fresh engine"):
            engine.generate("a car", sampling=STEPS)
        assert time.monotonic() - began < WITHIN_S
        assert comes_back_to(before)
        again = engine.generate("a teapot", sampling=STEPS, force=True)
        assert again[0].image.size == first[0].image.size
    assert comes_back_to(before)


def test_a_killed_server_leaves_nothing(wide: Path, runs: Path) -> None:
    before = gpu_bytes_used()[0]
    with wb.serve(str(wide)) as server:
        server.generate("a teapot", sampling=STEPS)
        assert gpu_bytes_used()[0] - before > WEIGHTS
        os.kill(server.pid, signal.SIGKILL)
        began = time.monotonic()
        with pytest.raises(LaunchFailed, match="SIGKILL"):
            server.generate("a car", sampling=STEPS)
        assert time.monotonic() - began < WITHIN_S
        assert comes_back_to(before)
