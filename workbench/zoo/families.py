"""The model families that the workbench knows, as data."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import ModelNotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What is common to all models of one diffusers pipeline class."""

    name: str
    pipelines: tuple[str, ...]
    """``_class_name`` in model_index.json."""
    transformers: tuple[str, ...] = ("transformer",)
    """Components that are quantized, where present."""
    sampling: dict[str, Any] = field(default_factory=dict)
    """Sampling fields that the pipeline is made for."""
    guidance: str = "guidance_scale"
    """The Sampling field that scales classifier-free guidance."""


FAMILIES = (
    Family(
        name="qwen-image",
        pipelines=("QwenImagePipeline",),
        guidance="true_cfg_scale",
        sampling={"height": 1024, "width": 1024, "true_cfg_scale": 4.0, "negative_prompt": " "},
    ),
    Family(
        name="flux",
        pipelines=("FluxPipeline",),
        sampling={"height": 1024, "width": 1024, "guidance_scale": 3.5},
    ),
    Family(
        name="wan",
        pipelines=("WanPipeline",),
        transformers=("transformer", "transformer_2"),
        sampling={
            "height": 480,
            "width": 832,
            "guidance_scale": 5.0,
            "negative_prompt": "",
            "num_frames": 81,
            "fps": 16.0,
        },
    ),
)


def family_of(folder: Path) -> Family:
    """Family of a diffusers folder.

    Raises:
        ModelNotFound: its pipeline class belongs to no family that we know.
    """
    name = json.loads((folder / "model_index.json").read_text()).get("_class_name")
    for family in FAMILIES:
        if name in family.pipelines:
            return family
    known = ", ".join(pipeline for family in FAMILIES for pipeline in family.pipelines)
    raise ModelNotFound(f"{folder} is a {name}; the workbench knows {known}")
