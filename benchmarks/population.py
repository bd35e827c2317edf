"""Fidelity over a population: noise floor, online FP8 and INT8, W4A16 rounded and tuned.

    python benchmarks/population.py [MODEL] [--prompts 8] [--seeds 8] [--iters 200] [--backends ...]

Prints the floor, every metric with its interval, each candidate against each other one on the same
pairs, and what the data orders; writes a run card into the run folder. Calibration prompts are not
those that are judged.
"""

from __future__ import annotations

import argparse

import pandas as pd
from every_recipe import CALIBRATION, PROMPTS

import workbench as wb
from workbench.eval.candidates import metric_stats, pair_effects
from workbench.eval.run_card import run_card

SHOWN = ["precision", "n", "identical", "median", "low", "high", "min", "max", "against_floor"]


def main() -> None:
    """Draw what is missing, compare, print."""
    options = _options()
    request = {
        "prompts": PROMPTS[: options.prompts],
        "seeds": range(options.seeds),
        "sampling": wb.Sampling(num_inference_steps=options.steps),
    }
    reference = wb.generate(options.model, **request)
    floor = wb.noise_floor(reference, attention_backends=options.backends, diffusers=True)
    calibration = wb.Calibration(prompts=CALIBRATION, num_inference_steps=options.steps)
    rounded = wb.QuantRecipe(method="auto-round", scheme="W4A16")
    tuned = rounded.but(iters=options.iters, calibration=calibration)
    candidates = [
        wb.generate(options.model, quantization="fp8", **request),
        wb.generate(options.model, quantization="int8", **request),
        *(wb.generate(wb.quantize(options.model, one), **request) for one in (rounded, tuned)),
    ]
    comparisons = [wb.compare(reference, one, floor=floor) for one in candidates]
    print(floor.table().to_string(index=False))
    for metric in comparisons[0].summary().index:
        print(f"\n{metric}")
        print(metric_stats(comparisons, metric)[SHOWN].round(4).to_string(index=False))
    effects = pair_effects(comparisons, "psnr_db")
    print("\nPSNR of the first less that of the second, pair by pair")
    print(effects.round(2).to_string(index=False))
    print("\n" + "; ".join(_ordered(effects)))
    print("run card:", run_card(reference, comparisons, floor=floor))


def _ordered(effects: pd.DataFrame) -> list[str]:
    """What the intervals allow to say of each two candidates."""
    said = []
    for row in effects.itertuples():
        if row.low > 0:
            said.append(f"{row.first} is closer than {row.second}")
        elif row.high < 0:
            said.append(f"{row.second} is closer than {row.first}")
        else:
            said.append(f"{row.first} and {row.second} are not told apart")
    return said


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="embedded:qwen-image")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--iters", type=int, default=200)
    parser.add_argument(
        "--backends", nargs="*", default=[], help="attention backends for the floor"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
