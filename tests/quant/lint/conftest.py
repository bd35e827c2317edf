"""Real checkpoints of each quantizer, made once a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from workbench.recipes import Calibration, QuantRecipe

CALIBRATION = Calibration(
    prompts=("a teapot on a table",), num_inference_steps=2, height=64, width=64
)
"""That of test_modelopt.py: both take the same checkpoints from the session's run folder."""
RECIPES: dict[str, tuple[str, dict[str, Any]]] = {
    "W4A16": ("auto-round", {"scheme": "W4A16"}),
    "FP8": ("modelopt", {"scheme": "FP8", "calibration": CALIBRATION}),
    "FP8-dynamic": ("modelopt", {"scheme": "FP8_PER_CHANNEL_PER_TOKEN"}),
    "NVFP4": ("modelopt", {"scheme": "NVFP4", "calibration": CALIBRATION}),
    "MXFP8": ("modelopt", {"scheme": "MXFP8"}),
    "MIXED": ("modelopt", {"scheme": "MIXED", "calibration": CALIBRATION}),
}
EIGHT_BIT = {"qwen": ("attn.add_kv_proj", "attn.to_out"), "wan": ("attn1",)}
"""Layers of each family that MIXED keeps in FP8."""


@pytest.fixture(scope="session")
def good(
    tiny_qwen: Path, tiny_flux: Path, tiny_wan: Path, shared_runs: Path
) -> Callable[[str], Path]:
    """Folder of a checkpoint, by family and recipe: ``qwen W4A16``."""
    sources = {"qwen": tiny_qwen, "flux": tiny_flux, "wan": tiny_wan}

    def make(name: str) -> Path:
        family, recipe = name.split()
        method, options = RECIPES[recipe]
        if recipe == "MIXED":
            rules = tuple((part, "FP8") for part in EIGHT_BIT[family])
            options = {**options, "layer_schemes": rules}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("WORKBENCH_RUNS", str(shared_runs))
            return wb.quantize(str(sources[family]), QuantRecipe(method=method, **options)).path

    return make
