"""What recording a trajectory costs: the same request with and without, alternating, one engine.

    python benchmarks/recording_overhead.py [PAIRS]

Prints the median ratio of paired wall times, recording included up to the arrays in hand.
"""

from __future__ import annotations

import statistics
import sys
import time

import workbench as wb
from workbench.serve import omni
from workbench.serve.engine import Engine
from workbench.serve.requests import generate_spec, launch_spec

MODEL, PROMPT = "embedded:qwen-image", "a teapot on a wooden table"


def seconds(engine: Engine, sampling: wb.Sampling, seed: int, record: bool) -> float:
    """Wall time of one request, with the calls that frame it."""
    began = time.perf_counter()
    omni.call(engine._omni, "workbench_start", record)
    omni.request(engine._omni, PROMPT, seed, sampling)
    omni.call(engine._omni, "workbench_finish")
    return time.perf_counter() - began


def main(pairs: int) -> None:
    """Warm up, then measure in pairs, the order swapped every time."""
    spec, folder = launch_spec(MODEL)
    sampling = generate_spec(spec, folder, PROMPT, seeds=(0,), sampling=None, repeat=0).sampling
    with Engine(spec, folder) as engine:
        for record in (True, False):
            seconds(engine, sampling, 0, record)
        ratios = []
        for seed in range(pairs):
            order = (True, False) if seed % 2 else (False, True)
            taken = {record: seconds(engine, sampling, seed, record) for record in order}
            ratios.append(taken[True] / taken[False])
    print(
        f"recorded / not recorded: median {statistics.median(ratios):.4f}, "
        f"range {min(ratios):.4f} to {max(ratios):.4f}, {pairs} pairs"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
