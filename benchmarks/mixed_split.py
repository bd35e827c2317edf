"""Does measuring pay? A measured FP8/NVFP4 split against random ones of the same bytes.

    python benchmarks/mixed_split.py [--model embedded:qwen-image] [--bits 6] [--seeds 8] [--engine]

Prints, for the measured split, for SEEDS random ones, and for NVFP4 and FP8 alone, the relative
error of the transformer's output on calls of held-out prompts, every layer rounded at once by the
reference numerics. With --engine, each split becomes a checkpoint, and its last latents in
vLLM-Omni are compared with those of BF16, at the same prompts and seeds.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import torch  # noqa: TID253

import workbench as wb
from workbench import zoo
from workbench.quant import sensitivity
from workbench.quant.fakes import FAKES
from workbench.quant.pipelines import Clock, linear_modules, load_pipeline, run_prompts
from workbench.quant.recorded import CallRecorder, output_error, output_of
from workbench.quant.sensitivity import Sensitivity
from workbench.schemes import SCHEMES

SMALL, LARGE = "NVFP4", "FP8"
BITS = {name: SCHEMES[name].bits for name in (SMALL, LARGE)}
CALIBRATION = (
    "a green apple on a marble table", "a blue car in the desert", "a white dog in a meadow",
    "an orange guitar under the stars",
)  # fmt: skip
HELD_OUT = (
    "a red teapot on a wooden table", "a penguin on the beach", "a green frog in a forest",
    "a robot on the moon",
)  # fmt: skip
Split = Mapping[tuple[str, str], str]
"""(component, layer) -> scheme."""


def main() -> None:
    """Measure once, then judge every split on what it has not seen."""
    options = _options()
    recipe = wb.QuantRecipe(
        method="modelopt",
        scheme="MIXED",
        effective_bits=options.bits,
        calibration=wb.Calibration(prompts=CALIBRATION, num_inference_steps=options.steps),
    )
    checkpoint = wb.quantize(options.model, recipe)
    found = _rows(checkpoint.sensitivity_table())
    splits = _splits(found, options.bits, options.seeds)
    amax = checkpoint.range_table().groupby(["component", "name"]).amax.max().to_dict()
    _print("transformer output", _transformer_errors(options, found, splits, amax))
    if options.engine:
        _print("last latents in vLLM-Omni", _engine_errors(options, recipe, splits))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="embedded:qwen-image")
    parser.add_argument("--bits", type=float, default=6.0)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=8, help="random splits")
    parser.add_argument("--engine", action="store_true")
    parser.add_argument("--draw-steps", type=int, default=20, help="of each picture")
    return parser.parse_args()


def _rows(table: Any) -> list[Sensitivity]:
    return [
        Sensitivity(
            component=row.component,
            group=row.group,
            linears=tuple(row.linears),
            parameters=row.parameters,
            errors={SMALL: row.error_NVFP4, LARGE: row.error_FP8},
        )
        for row in table.itertuples()
    ]


def _splits(found: Sequence[Sensitivity], bits: float, seeds: int) -> dict[str, Split]:
    """The measured one, and others that the same rule makes of errors drawn at random."""
    splits = {"measured": _chosen(found, bits)}
    for seed in range(seeds):
        drawn = random.Random(seed)
        errors = [{SMALL: drawn.random() * one.parameters**0.5, LARGE: 0.0} for one in found]
        shuffled = [replace(one, errors=e) for one, e in zip(found, errors, strict=True)]
        splits[f"random {seed}"] = _chosen(shuffled, bits)
    for name in (SMALL, LARGE):
        splits[f"all {name}"] = {(one.component, one.group): name for one in found}
    for name, split in splits.items():
        print(f"{name}: {sensitivity.effective_bits(found, split, BITS):.3f} bits a weight")
    return splits


def _chosen(found: Sequence[Sensitivity], bits: float) -> Split:
    return sensitivity.choose(found, BITS, small=SMALL, large=LARGE, effective_bits=bits)


def _transformer_errors(
    options: argparse.Namespace,
    found: Sequence[Sensitivity],
    splits: Mapping[str, Split],
    amax: Mapping[tuple[str, str], float],
) -> dict[str, float]:
    source = zoo.locate(wb.ModelRef(options.model))
    pipeline = load_pipeline(source)
    models = {name: getattr(pipeline, name) for name in {one.component for one in found}}
    clock = Clock()
    recorder = CallRecorder(models, clock)
    held_out = wb.Calibration(prompts=HELD_OUT, num_inference_steps=options.steps, seed=1000)
    run_prompts(pipeline, source, held_out, clock)
    recorder.remove()
    errors: dict[str, list[float]] = {name: [] for name in splits}
    with torch.no_grad():
        for component, model in models.items():
            calls = recorder.spread(component, 8)
            outputs = [output_of(model, call) for call in calls]
            own = [one for one in found if one.component == component]
            for name, split in splits.items():
                with ExitStack() as stack:
                    _round_all(stack, linear_modules(model), own, split, amax)
                    errors[name].append(output_error(model, calls, outputs))
    return {name: statistics.mean(values) for name, values in errors.items()}


def _round_all(
    stack: ExitStack,
    modules: Mapping[str, torch.nn.Linear],
    found: Iterable[Sensitivity],
    split: Split,
    amax: Mapping[tuple[str, str], float],
) -> None:
    for one in found:
        layers = [modules[name] for name in one.linears]
        largest = max(amax[one.component, name] for name in one.linears)
        scheme = FAKES[split[one.component, one.group]]
        stack.enter_context(sensitivity.rounded(scheme, layers, largest))


def _engine_errors(
    options: argparse.Namespace, recipe: wb.QuantRecipe, splits: Mapping[str, Split]
) -> dict[str, float]:
    sampling = wb.Sampling(num_inference_steps=options.draw_steps)
    seeds = range(2)

    def latents(model: Any) -> list[np.ndarray]:
        with wb.launch(model) as engine:
            made = engine.generate(wb.PromptSet(HELD_OUT), seeds=seeds, sampling=sampling)
        return [one.trajectory.latents[-1] for one in made]

    reference = latents(options.model)
    errors = {}
    for name, split in splits.items():
        pairs = zip(latents(_checkpoint(options.model, recipe, split)), reference, strict=True)
        distances = [np.linalg.norm(one - bf16) / np.linalg.norm(bf16) for one, bf16 in pairs]
        errors[name] = float(np.mean(distances))
        print(f"{name}: {errors[name]:.4f}", flush=True)
    return errors


def _checkpoint(model: str, recipe: wb.QuantRecipe, split: Split) -> Any:
    used = set(split.values())
    if len(used) == 1:
        (scheme,) = used
        return wb.quantize(model, recipe.but(scheme=scheme, effective_bits=None))
    rules = tuple((f"^{group}", scheme) for (_, group), scheme in split.items())
    return wb.quantize(model, recipe.but(effective_bits=None, layer_schemes=rules))


def _print(what: str, errors: Mapping[str, float]) -> None:
    chance = [error for name, error in errors.items() if name.startswith("random")]
    beaten = sum(errors["measured"] < error for error in chance)
    print(f"\nRelative error of the {what}")
    for name, error in errors.items():
        print(f"  {name:12} {error:.4f}")
    print(
        f"  measured / median of random: {errors['measured'] / statistics.median(chance):.3f}; "
        f"better than {beaten} of {len(chance)}"
    )


if __name__ == "__main__":
    main()
