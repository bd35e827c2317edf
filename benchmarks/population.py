"""Fidelity over a population: noise floor, online FP8 and INT8, W4A16 rounded and tuned.

    python benchmarks/population.py [MODEL] [--prompts 8] [--seeds 8] [--iters 200] [--backends ...]
    python benchmarks/population.py embedded:wan --seeds 1 [--first-frames] [--card NAME]

Prints the floor, every metric with its interval, of videos those over time too, each candidate
against each other one on the same pairs, and what the data orders; writes a run card into the run
folder. Calibration prompts are not those that are judged. With ``--first-frames`` each clip, of
calibration too, begins with the first frame of the one that the reference draws from the prompt.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from every_recipe import prompts_of

import workbench as wb
from workbench.eval.candidates import metric_stats, pair_effects, told_apart
from workbench.eval.comparison import Comparison
from workbench.eval.run_card import run_card
from workbench.eval.temporal_metrics import KNOWN, TEMPORAL
from workbench.records import GenerationSet

SHOWN = ["n", "identical", "left_out", "median", "low", "high", "min", "max", "against_floor"]
SHORT = "{:.4g}".format
ORDERED_BY = ("psnr_db", "flicker_error")


def main() -> None:
    """Draw what is missing, compare, print."""
    options = _options()
    judged, others = prompts_of(options.model)
    sampling = wb.Sampling(num_inference_steps=options.steps)
    request: dict[str, Any] = {
        "prompts": judged[: options.prompts],
        "seeds": range(options.seeds),
        "sampling": sampling,
    }
    reference = wb.generate(options.model, **request)
    steps = options.calibration_steps or options.steps
    calibration = wb.Calibration(prompts=others, num_inference_steps=steps)
    if options.first_frames:
        request["images"] = _one_a_prompt(reference)
        reference = wb.generate(options.model, **request)
        drawn = wb.generate(options.model, others, sampling=sampling)
        calibration = calibration.but(images=drawn)
    floor = wb.noise_floor(
        reference, attention_backends=options.backends, diffusers=options.diffusers
    )
    candidates = _candidates(options, calibration, request)
    comparisons = [wb.compare(reference, one, floor=floor) for one in candidates]
    print(floor.table().to_string(index=False))
    _print(comparisons)
    card = run_card(reference, comparisons, floor=floor)
    print("run card:", card.rename(card.with_stem(options.card)) if options.card else card)


def _one_a_prompt(clips: GenerationSet) -> list[Any]:
    """The clip of each prompt's first seed."""
    return list({clip.prompt: clip for clip in reversed(list(clips))}.values())[::-1]


def _candidates(
    options: argparse.Namespace, calibration: wb.Calibration, request: dict[str, Any]
) -> Iterator[GenerationSet]:
    for online in ("fp8", "int8"):
        yield wb.generate(options.model, quantization=online, **request)
    rounded = wb.QuantRecipe(method="auto-round", scheme="W4A16")
    for recipe in (rounded, rounded.but(iters=options.iters, calibration=calibration)):
        checkpoint = wb.quantize(options.model, recipe)
        if checkpoint.calibration_note:
            print(f"{recipe.label}: calibrated on {checkpoint.calibration_note}\n")
        yield wb.generate(checkpoint, **request)


def _print(comparisons: Sequence[Comparison]) -> None:
    for metric in comparisons[0].summary().index:
        known = KNOWN[metric]
        over = ", over time" if metric in TEMPORAL else ""
        unit = f" [{known.unit}]" if known.unit else ""
        print(f"\n{metric}: {known.title}{unit}{over}; {known.closer}")
        print(
            metric_stats(comparisons, metric)[["precision", *SHOWN]].to_string(
                index=False, float_format=SHORT
            )
        )
    for metric in ORDERED_BY:
        if metric in comparisons[0].table():
            print(f"\n{metric} of the first less that of the second, pair by pair")
            print(pair_effects(comparisons, metric).to_string(index=False, float_format=SHORT))
            print("; ".join(told_apart(comparisons, metric)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="embedded:qwen-image")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--iters", type=int, default=200)
    parser.add_argument("--calibration-steps", type=int, help="as --steps unless given")
    parser.add_argument("--first-frames", action="store_true", help="image-to-video")
    parser.add_argument("--card", help="name of the run card; its key unless given")
    parser.add_argument(
        "--backends", nargs="*", default=[], help="attention backends for the floor"
    )
    parser.add_argument(
        "--diffusers",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="the same weights in plain diffusers in the floor",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
