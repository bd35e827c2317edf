"""Clips that tests of videos draw, and how near two of them are."""

import numpy as np

import workbench as wb
from workbench.records import Generation, GenerationSet

STEPS = wb.Sampling(num_inference_steps=3, height=64, width=64, num_frames=5, fps=8)
PROMPT = "a ball rolls to the right"


def frame(height: int = 64, width: int = 64) -> np.ndarray:
    """A smooth picture, uint8 [height, width, 3]."""
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    return np.stack([255 * x, 255 * y, 127 * (1 + np.sin(6 * x))], -1).astype(np.uint8)


def psnr_db(one: Generation, other: Generation) -> float:
    """Over all frames."""
    a, b = (np.stack([np.asarray(f, float) for f in item.frames]) for item in (one, other))
    return 10 * np.log10(255**2 / ((a - b) ** 2).mean())


def assert_same_as_diffusers(drawn: GenerationSet, model: str) -> None:
    """Plain diffusers draws the same from the same first frame, as near as it can."""
    options = {"sampling": STEPS, "images": frame(), "runtime": "diffusers"}
    (plain,), (item,) = wb.generate(model, PROMPT, **options), drawn
    theirs, own = plain.trajectory, item.trajectory
    np.testing.assert_array_equal(own.latents[0], theirs.latents[0])
    # The schedules of both differ by 1 in 1000 from the second step on, and random weights under
    # guidance enlarge that.
    first = own.latents[1] - theirs.latents[1]
    assert np.linalg.norm(first) < 0.005 * np.linalg.norm(theirs.latents[1])
    assert psnr_db(item, plain) > 24
    assert own.experts == theirs.experts
