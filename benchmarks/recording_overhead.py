"""What the workbench costs: bare ``Omni.generate``, a benchmark's request, and a recorded one.

    python benchmarks/recording_overhead.py [MODEL] [--rounds 20] [--steps 20] [--compiled]

All three in one engine, round by round, the order turned every time. Prints the median of the
ratios to the bare call of the same round with its 95 % bootstrap interval, and whether that decides
the aims (a load at most 1.01, recorded at most 1.03). Recording is included up to the arrays in
hand, and of a load what its row says.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from scipy.stats import bootstrap

import workbench as wb
from workbench.serve import omni
from workbench.serve.engine import Engine
from workbench.serve.requests import asked_load, launch_spec

PROMPT = "a teapot on a wooden table"
AIMS = {"load": 1.01, "recorded": 1.03}


def main() -> None:
    """Warm up, measure in rounds, print."""
    options = _options()
    spec, folder = launch_spec(options.model, enforce_eager=not options.compiled)
    drawn = wb.Sampling(num_inference_steps=options.steps)
    workload = wb.Workload(PROMPT, sampling=drawn, requests=1)
    with Engine(spec, folder) as engine:
        ways = _ways(engine, workload, asked_load(spec, folder, workload, None).workload.sampling)
        taken = np.array([_round(number, ways) for number in range(-1, options.rounds)][1:])
    bare, *others = taken.T
    print(
        f"bare: median {np.median(bare):.3f} s of {len(bare)}, {bare.min():.3f} to {bare.max():.3f}"
    )
    for (name, aim), seconds in zip(AIMS.items(), others, strict=True):
        print(_judged(name, seconds / bare, aim))


def _ways(
    engine: Engine, workload: wb.Workload, sampling: wb.Sampling
) -> dict[str, Callable[[int], float]]:
    """Each draws one picture and says the seconds."""

    def bare(seed: int) -> float:
        began = time.perf_counter()
        omni.request(engine._omni, PROMPT, seed, sampling)
        return time.perf_counter() - began

    def load(seed: int) -> float:
        return engine.load(workload.but(seeds=(seed,))).rows[0].latency_s

    def recorded(seed: int) -> float:
        began = time.perf_counter()
        engine._draw(sampling, PROMPT, seed, None)
        return time.perf_counter() - began

    return {"bare": bare, "load": load, "recorded": recorded}


def _round(number: int, ways: dict[str, Callable[[int], float]]) -> list[float]:
    """Seconds of each way, in the order of ``ways``; who goes first turns with the number."""
    names = list(ways)
    turned = names[number % 3 :] + names[: number % 3]
    taken = {name: ways[name](max(number, 0)) for name in turned}
    return [taken[name] for name in names]


def _judged(name: str, ratios: np.ndarray, aim: float) -> str:
    interval = bootstrap((ratios,), np.median, method="percentile", rng=0).confidence_interval
    met = interval.high <= aim
    missed = interval.low > aim
    return (
        f"{name} / bare: median {np.median(ratios):.4f} [{interval.low:.4f}, {interval.high:.4f}], "
        f"range {ratios.min():.3f} to {ratios.max():.3f}; "
        f"at most {aim}: {'met' if met else 'missed' if missed else 'undecided'}"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="embedded:qwen-image")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--compiled", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
