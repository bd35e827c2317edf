"""What the workbench costs: bare ``Omni.generate``, a benchmark's request, and a recorded one.

    python benchmarks/recording_overhead.py [ROUNDS] [MODEL] [STEPS]

Prints the median ratios to the bare call over rounds in one engine, the order turned every time;
recording is included up to the arrays in hand, and of a load what its row says.
"""

from __future__ import annotations

import statistics
import sys
import time

import workbench as wb
from workbench.serve import omni
from workbench.serve.engine import Engine
from workbench.serve.requests import launch_spec, workload_sampling

MODEL, PROMPT = "embedded:qwen-image", "a teapot on a wooden table"


def main(rounds: int, model: str, steps: int) -> None:
    """Warm up, then measure in rounds."""
    spec, folder = launch_spec(model)
    workload = wb.Workload(PROMPT, sampling=wb.Sampling(num_inference_steps=steps), requests=1)
    sampling = workload_sampling(spec, folder, workload)
    with Engine(spec, folder) as engine:

        def bare(seed: int) -> float:
            began = time.perf_counter()
            omni.request(engine._omni, PROMPT, seed, sampling)
            return time.perf_counter() - began

        def load(seed: int) -> float:
            return engine.load(workload.but(seeds=(seed,))).rows[0].latency_s

        def recorded(seed: int) -> float:
            began = time.perf_counter()
            engine._draw(PROMPT, seed, sampling)
            return time.perf_counter() - began

        ways = {"bare": bare, "load": load, "recorded": recorded}
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(-1, rounds):
            names = list(ways)[number % 3 :] + list(ways)[: number % 3]
            for name in names:
                taken[name].append(ways[name](max(number, 0)))
    alone = taken["bare"][1:]
    for name in ("load", "recorded"):
        ratios = [mine / its for mine, its in zip(taken[name][1:], alone, strict=True)]
        print(
            f"{name} / bare: median {statistics.median(ratios):.4f}, "
            f"range {min(ratios):.4f} to {max(ratios):.4f}, {rounds} rounds; "
            f"bare {statistics.median(alone):.3f} s"
        )


if __name__ == "__main__":
    given = sys.argv[1:]
    main(
        int(given[0]) if given else 20,
        given[1] if len(given) > 1 else MODEL,
        int(given[2]) if len(given) > 2 else 20,
    )
