"""What the workbench costs: bare ``Omni.generate``, a benchmark's request, and a recorded one.

    python benchmarks/recording_overhead.py [MODEL] [--rounds 20] [--steps 20] [--card NAME]

All three in one engine, round by round, the order turned every time. Prints the median of the
ratios to the bare call of the same round with its 95 % bootstrap interval, and whether that decides
the aims (a load at most 1.01, recorded at most 1.03); writes a card of every round. Recording is
included up to the arrays in hand, and of a load what its row says.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import bootstrap

import workbench as wb
from workbench import store
from workbench.eval.speed_spread import CERTAIN
from workbench.provenance import provenance
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
        audit = engine.audit
    bare, *others = taken.T
    print(
        f"bare: median {np.median(bare):.3f} s of {len(bare)}, {bare.min():.3f} to {bare.max():.3f}"
    )
    for (name, aim), seconds in zip(AIMS.items(), others, strict=True):
        print(_judged(name, seconds / bare, aim))
    cards = store.root() / "cards"
    store.make_folder(cards)
    card = {**_card(taken), "launch": spec.model_dump(mode="json"), "steps": options.steps}
    card["attention_backend"] = audit.attention_backend
    store.write_json(cards / f"{options.card}.json", card)
    print(f"card: {cards / options.card}.json")


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


def _card(taken: np.ndarray) -> dict[str, Any]:
    """Every round, and what it comes to.

    Args:
        taken: seconds [rounds, ways], the bare call first.
    """
    bare, *others = taken.T
    return {
        "schema_version": 1,
        "seconds": {name: one.tolist() for name, one in zip(("bare", *AIMS), taken.T, strict=True)},
        "ratios": {
            name: {"each": (one / bare).tolist(), "aim": AIMS[name], **_summed(one / bare)}
            for name, one in zip(AIMS, others, strict=True)
        },
        "provenance": provenance(),
    }


def _summed(ratios: np.ndarray) -> dict[str, Any]:
    """Median, and its interval; of fewer rounds than that takes their range."""
    low, high = ratios.min(), ratios.max()
    if len(ratios) >= CERTAIN:
        found = bootstrap((ratios,), np.median, method="percentile", rng=0).confidence_interval
        low, high = found.low, found.high
    return {"median": float(np.median(ratios)), "low": float(low), "high": float(high)}


def _judged(name: str, ratios: np.ndarray, aim: float) -> str:
    one, enough = _summed(ratios), len(ratios) >= CERTAIN
    met, missed = enough and one["high"] <= aim, enough and one["low"] > aim
    within = "95 % interval" if enough else f"range, too few rounds: {CERTAIN} are needed"
    return (
        f"{name} / bare: median {one['median']:.4f} [{one['low']:.4f}, {one['high']:.4f}] "
        f"({within}), range {ratios.min():.3f} to {ratios.max():.3f}; "
        f"at most {aim}: {'met' if met else 'missed' if missed else 'undecided'}"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="embedded:qwen-image")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--card", default="overhead")
    return parser.parse_args()


if __name__ == "__main__":
    main()
