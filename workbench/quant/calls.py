"""Arguments of the calibration runs: what the served pipeline would get, without decoding."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.first_frames import fitted, opened
from workbench.recipes import Calibration
from workbench.spec import PIXELS_PER_TOKEN
from workbench.zoo.models import default_sampling


def first_frames(calibration: Calibration, arguments: Mapping[str, Any]) -> list[Any]:
    """The image that each prompt begins with, RGB at the calibrated size; None for prompts alone.

    Args:
        calibration: The recipe's.
        arguments: Of the call, with height and width in pixels.

    Raises:
        SpecError: one that is no picture, or of another aspect ratio.
    """
    size, count = (arguments["width"], arguments["height"]), len(calibration.prompts)
    if not calibration.images:
        return [None] * count
    found = [fitted(opened(file), size, PIXELS_PER_TOKEN) for file in calibration.images]
    return [one.picture for one in (found if len(found) > 1 else found * count)]


def call_arguments(source: Path, calibration: Calibration, guidance: str) -> dict[str, Any]:
    """Keyword arguments of one call of the pipeline, all but prompt, steps and generator.

    Args:
        source: Pipeline whose default sampling fills in what the calibration leaves open.
        calibration: The recipe's.
        guidance: Pipeline argument that scales guidance, ``guidance_scale`` or ``true_cfg_scale``.
    """
    served = default_sampling(source)
    arguments = {name: served[name] for name in ("negative_prompt", "num_frames") if name in served}
    if calibration.num_frames is not None:
        arguments["num_frames"] = calibration.num_frames
    arguments["height"] = calibration.height or served["height"]
    arguments["width"] = calibration.width or served["width"]
    arguments[guidance] = calibration.guidance_scale
    return {**arguments, "output_type": "latent"}
