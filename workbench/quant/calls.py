"""Arguments of the calibration runs: what the served pipeline would get, without decoding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench.recipes import Calibration
from workbench.zoo.models import default_sampling


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
