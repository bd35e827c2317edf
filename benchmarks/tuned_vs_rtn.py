"""Does tuning W4A16 pay? Each variant against round to nearest, paired by prompt and seed.

    python benchmarks/tuned_vs_rtn.py [--variants tuned ...] [--prompts 8] [--seeds 4] [--steps 20]
        [--calibration-prompts 16] [--calibration-steps 8] [--no-pictures]

Weights are dequantized into the diffusers pipeline (bfloat16 on a GPU, float32 on a CPU), so that
only the rounding differs and no kernel has a part in it. Prints, for each variant, the relative
distance of its latents from the 16-bit model's, averaged over the steps and at the last one, the
PSNR of the pictures, and the paired differences from RTN: median, 95 % bootstrap interval, wins.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch  # noqa: TID253

import workbench as wb
from workbench import zoo
from workbench.quant.packing import dequantize
from workbench.quant.shards import Reader
from workbench.torchvision_ops import define_missing
from workbench.zoo.inventory import linears

MODEL = "embedded:qwen-image"
PROMPTS = (
    "a red teapot on a wooden table", "a small cat next to a blue mug in the snow",
    "a yellow taxi on a city street", "a penguin on the beach", "a green frog in a forest",
    "a purple balloon in the clouds", "a robot on the moon", "a pizza on a checkered tablecloth",
)  # fmt: skip
_THINGS = (
    "apple", "book", "car", "guitar", "mushroom", "dog", "cactus", "rocket", "cake", "house",
    "duck", "pumpkin", "pear", "fox",
)  # fmt: skip
_PLACES = (
    "on a marble table", "in the desert", "in a meadow", "at sunset", "on a dotted background",
    "by a brick wall", "under the stars", "on a blue background",
)  # fmt: skip
_COLOURS = ("blue", "orange", "white", "pink", "green")
VARIANTS: dict[str, dict[str, Any]] = {
    "rtn": {},
    "opt-rtn": {"disable_opt_rtn": False},
    "tuned-100": {"iters": 100},
    "tuned": {"iters": 200},
    "tuned-400": {"iters": 400},
    "tuned-lr5e-3": {"iters": 200, "lr": 5e-3},
    "tuned-lr2e-2": {"iters": 200, "lr": 2e-2},
    "tuned-acc4": {"iters": 200, "gradient_accumulate_steps": 4},
}


def calibration_prompts(count: int) -> tuple[str, ...]:
    """Sentences that none of the judged prompts is among."""
    return tuple(
        f"a {_COLOURS[i % 5]} {_THINGS[i % len(_THINGS)]} {_PLACES[i % len(_PLACES)]}"
        for i in range(count)
    )


def recipe(variant: str, count: int, steps: int) -> wb.QuantRecipe:
    """W4A16 with the options of a variant, calibrated only where it reads the prompts."""
    options = VARIANTS[variant]
    if options:
        options = options | {
            "calibration": wb.Calibration(
                prompts=calibration_prompts(count), num_inference_steps=steps
            )
        }
    return wb.QuantRecipe(method="auto-round", scheme="W4A16", **options)


def draw(pipeline: Any, args: argparse.Namespace) -> Iterator[tuple[Any, Any]]:
    """Latents [steps, seeds, ...] and pictures [seeds, h, w, 3], if asked for, of each prompt."""
    sampling = dict(zoo.default_sampling(zoo.locate(wb.ModelRef(MODEL))))
    sampling["num_inference_steps"] = args.steps
    for prompt in PROMPTS[: args.prompts]:
        path: list[torch.Tensor] = []

        def keep(_: Any, __: int, ___: Any, state: dict[str, Any], path: Any = path) -> Any:
            path.append(state["latents"].float().cpu())
            return state

        pictures = pipeline(
            [prompt] * args.seeds,
            generator=[torch.Generator("cpu").manual_seed(seed) for seed in range(args.seeds)],
            callback_on_step_end=keep,
            output_type="latent" if args.no_pictures else "np",
            **{**sampling, "negative_prompt": [sampling["negative_prompt"]] * args.seeds},
        ).images
        yield torch.stack(path), pictures


def load_packed(pipeline: Any, checkpoint: Any) -> None:
    """Put a checkpoint's weights, turned back into numbers, into the pipeline's transformer."""
    modules = dict(pipeline.transformer.named_modules())
    with ExitStack() as stack, torch.no_grad():
        read = Reader(stack)
        for name, stored in linears(checkpoint.path / "transformer").items():
            if stored.quantized:
                parts = {part: read(f, f"{name}.{part}") for part, f in stored.tensors.items()}
                modules[name].weight.copy_(dequantize(parts, stored.scheme))


def measures(pipeline: Any, reference: list[Any], args: Any) -> dict[str, np.ndarray]:
    """One value a picture: distance along the path, at its end, and PSNR."""
    path, end, psnr = [], [], []
    for (latents, pictures), (true, pictured) in zip(draw(pipeline, args), reference, strict=True):
        away = (latents - true).flatten(2).norm(dim=2) / true.flatten(2).norm(dim=2)
        path += away.mean(dim=0).tolist()
        end += away[-1].tolist()
        if not args.no_pictures:
            error = ((pictures - pictured) ** 2).mean(axis=(1, 2, 3))
            psnr += (-10 * np.log10(error)).tolist()
    found = {"path": path, "end": end, "psnr_db": psnr}
    return {name: np.array(values) for name, values in found.items() if values}


def paired(name: str, difference: np.ndarray, better: int) -> str:
    """Median, 95 % interval of the median by bootstrap, and the share of pairs that improved."""
    draws = np.random.default_rng(0).choice(difference, (4000, len(difference)))
    low, high = np.percentile(np.median(draws, axis=1), (2.5, 97.5))
    wins = int((better * difference > 0).sum())
    return (
        f"{name} {np.median(difference):+.4f} [{low:+.4f}, {high:+.4f}], "
        f"better in {wins} of {len(difference)}"
    )


def main(args: argparse.Namespace) -> None:
    """Quantize, draw and print, variant by variant."""
    define_missing()
    from diffusers import DiffusionPipeline

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    folder = zoo.locate(wb.ModelRef(MODEL))
    pipeline = DiffusionPipeline.from_pretrained(folder, torch_dtype=dtype).to(device)
    pipeline.set_progress_bar_config(disable=True)
    reference = list(draw(pipeline, args))
    print(f"{device}, {dtype}, {args}", flush=True)
    base: dict[str, np.ndarray] = {}
    for variant in ("rtn", *args.variants):
        began = time.perf_counter()
        asked = recipe(variant, args.calibration_prompts, args.calibration_steps)
        checkpoint = wb.quantize(MODEL, asked)
        took = time.perf_counter() - began
        load_packed(pipeline, checkpoint)
        found = measures(pipeline, reference, args)
        base = base or found
        print(f"{variant}: quantized in {took:.0f} s", flush=True)
        for key, values in found.items():
            line = f"  {key}: median {np.median(values):.4f}"
            if variant != "rtn":
                sign = 1 if key == "psnr_db" else -1
                line += "; " + paired("against rtn", values - base[key], sign)
            print(line, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variants", nargs="+", default=["opt-rtn", "tuned"], choices=VARIANTS)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--calibration-prompts", type=int, default=16)
    parser.add_argument("--calibration-steps", type=int, default=8)
    parser.add_argument("--no-pictures", action="store_true", help="latents alone: no decoding")
    main(parser.parse_args())
