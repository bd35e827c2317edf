"""A temporal fault planted into clips of the embedded Wan: which metric is its witness.

    python benchmarks/planted_fault.py [MODEL] [--prompts 8] [--steps 8]

Against the clips at 16 bit: their own with every fourth frame two pixels to the right, as they are
and under noise of 45 dB, with which every frame differs; INT8 as served; and noise of 30 dB, new in
each frame. Prints the mean of each metric over the prompts, PSNR both as the mean of the frames
that differ and of all pixels together, and how many times as bad the fault is as the worst of those
that have none.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import pandas as pd
from every_recipe import prompts_of

import workbench as wb
from workbench.records import Generation

OVER_TIME = ("flicker_error", "warping_error", "motion_error", "shift_error", "jitter")
ALONE, COVERED = "fault", "fault, noise 45 dB"


def main() -> None:
    """Draw what is missing, plant, score, print."""
    options = _options()
    request = {
        "prompts": prompts_of(options.model)[0][: options.prompts],
        "sampling": wb.Sampling(num_inference_steps=options.steps),
    }
    reference = wb.generate(options.model, **request)
    int8 = wb.generate(options.model, quantization="int8", **request)
    rows = [row for pair in zip(reference, int8, strict=True) for row in _scored(*pair)]
    table = pd.DataFrame(rows).groupby("candidate", sort=False).mean()
    print(table.to_string(float_format="{:.4g}".format), end="\n\n")
    sound = table.drop(index=[ALONE, COVERED])
    for name in OVER_TIME:
        ratio = table.loc[COVERED, name] / sound[name].max()
        print(f"{name}: the fault is {ratio:.2g} times {sound[name].idxmax()}")
    print(f"worst by jitter: {table['jitter'].drop(ALONE).idxmax()}")
    print(f"best by mean PSNR: {table['psnr_db'].idxmax()}")


def _scored(reference: Generation, int8: Generation) -> Iterator[dict[str, object]]:
    clip, served = (np.stack([np.asarray(f) for f in one.frames]) for one in (reference, int8))
    faulty = clip.copy()
    faulty[3::4] = np.roll(clip[3::4], 2, axis=2)
    candidates = {
        ALONE: faulty,
        COVERED: _noisy(faulty, 45),
        "INT8": served,
        "noise 30 dB": _noisy(clip, 30),
    }
    for name, candidate in candidates.items():
        found = wb.score(clip, candidate, metrics=["psnr_db", *OVER_TIME])
        yield {
            "candidate": name,
            "identical_frames": found.frames["identical"].sum(),
            "psnr_db": found.values["psnr_db"],
            "pooled_psnr_db": _pooled(clip, candidate),
            **{key: found.values[key] for key in OVER_TIME},
        }


def _noisy(clip: np.ndarray, psnr_db: float) -> np.ndarray:
    half = 255 * np.sqrt(3) * 10 ** (-psnr_db / 20)
    noise = np.random.default_rng(0).uniform(-half, half, clip.shape)
    return np.clip(np.rint(clip + noise), 0, 255).astype(np.uint8)


def _pooled(clip: np.ndarray, candidate: np.ndarray) -> float:
    """PSNR of all frames as one picture, identical ones among them."""
    return float(
        20 * np.log10(255) - 10 * np.log10(np.square(clip - candidate.astype(float)).mean())
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="embedded:wan")
    parser.add_argument("--prompts", type=int, default=8, help="of the 8 that models are judged by")
    parser.add_argument("--steps", type=int, default=8)
    return parser.parse_args()


if __name__ == "__main__":
    main()
