"""What vLLM-Omni 0.30.0 builds from each family: the presets, and what they say of one layer."""

from __future__ import annotations

from workbench.errors import SpecError
from workbench.zoo.image_presets import IMAGE_PRESETS
from workbench.zoo.names import canonical
from workbench.zoo.other_presets import OTHER_PRESETS
from workbench.zoo.preset import (
    AUTOROUND,
    EVERY,
    MODELOPT,
    ONLINE,
    Component,
    Fused,
    Kept,
    Preset,
)

__all__ = [
    "AUTOROUND",
    "EVERY",
    "MODELOPT",
    "ONLINE",
    "PRESETS",
    "Component",
    "Fused",
    "Kept",
    "Preset",
    "inside_blocks",
    "kept_reason",
    "preset_of",
]

PRESETS = (*IMAGE_PRESETS, *OTHER_PRESETS)
OUTSIDE = "outside the transformer blocks: embedders, final norm and projection run in 16 bit"


def preset_of(family: str) -> Preset:
    """The preset of a family.

    Raises:
        SpecError: none is known.
    """
    for preset in PRESETS:
        if preset.family == family:
            return preset
    known = ", ".join(preset.family for preset in PRESETS)
    raise SpecError(
        f"no quantization preset for the family {family!r}; there are {known}. "
        "Launch the model with quantization='fp8' or 'int8' instead, which needs none"
    )


def inside_blocks(preset: Preset, name: str) -> bool:
    """Whether a linear lies in what can be quantized, by its name in file or at run time."""
    return canonical(preset, name).startswith(tuple(f"{block}." for block in preset.blocks))


def kept_reason(preset: Preset, name: str, method: str) -> str | None:
    """Why the engine builds a linear in 16 bit under a method, or None if it quantizes it.

    Args:
        preset: The family's.
        name: Name in the file or at run time, fused or not, without the component, e.g.
            ``transformer_blocks.0.attn.to_q``, ``transformer_blocks.0.attn.to_qkv``.
        method: ``online``, ``modelopt`` or ``auto-round``.
    """
    if preset.ignored:
        return preset.ignored
    if not inside_blocks(preset, name):
        return OUTSIDE
    name = canonical(preset, name)
    for rule in preset.kept:
        if method in rule.methods and rule.part in f".{name}.":
            return rule.reason
    return None
