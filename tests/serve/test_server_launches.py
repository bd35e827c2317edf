"""Servers of their own: with several workers, without a parent, and one that does not start."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import workbench as wb
from workbench.errors import LaunchFailed
from workbench.records import Checkpoint

pytestmark = pytest.mark.slow
STEPS = wb.Sampling(num_inference_steps=3)
PARENT = """
import sys, time
import workbench as wb
if __name__ == "__main__":
    two = wb.Parallelism(tensor_parallel_size=2)
    server = wb.serve(sys.argv[1], parallelism=two, step_execution=True)
    print(server.pid, flush=True)
    time.sleep(1000)
"""


def test_no_worker_is_left_when_who_started_them_is_killed(tiny_qwen: Path, runs: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tiny_qwen)], stdout=subprocess.PIPE, text=True
    )
    with parent, parent.stdout:
        pid = int(parent.stdout.readline())
        outer = psutil.Process(pid).parent().parent()
        processes = [outer, *outer.children(recursive=True)]
        assert sum("Worker" in " ".join(one.cmdline()) for one in processes) >= 2
        parent.kill()
        assert not psutil.wait_procs(processes, timeout=60)[1]


def test_a_server_that_does_not_start_shows_the_end_of_its_log(tiny_qwen: Path, runs: Path) -> None:
    with pytest.raises(LaunchFailed, match=r"(?s)exit code 2 .*unrecognized arg") as raised:
        wb.serve(str(tiny_qwen), extra_flags=("--no-such-flag",))
    (log,) = runs.glob("logs/*.log")
    assert str(log) in str(raised.value)


def test_a_quantized_checkpoint_is_served_by_two_workers(
    tiny_qwen: Path, w4a16: Checkpoint, runs: Path
) -> None:
    layout = wb.Parallelism(tensor_parallel_size=2)
    alone = wb.generate(w4a16, "a car", sampling=STEPS, parallelism=layout, step_execution=True)
    with wb.serve(w4a16, parallelism=layout, step_execution=True) as server:
        assert server.audit.verdict == "as requested"
        assert server.audit.world_sizes["tensor_parallel"] == 2
        drawn = server.generate("a car", sampling=STEPS)
        workers = psutil.Process(server.pid).children(recursive=True)
        assert len(workers) >= 2
    assert drawn[0].sha256 == alone[0].sha256
    assert not psutil.wait_procs(workers, timeout=60)[1]
