"""The names that vLLM-Omni looks up when it asks whether a layer is packed."""

from __future__ import annotations

from typing import Any

from workbench.quant.presets import Preset


def extra_config(preset: Preset, kept: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Entries that make the loader build the kept layers in 16 bit.

    Args:
        preset: Says how the family's names differ at runtime.
        kept: Linears in 16 bit, by diffusers' names.

    Returns:
        Name to ``{"bits": 16, "data_type": "float"}``: diffusers' name, and vLLM-Omni's where it
        differs. Exact names only: vLLM matches a short one by its ending, so a kept ``proj_out``
        would also unpack ``single_transformer_blocks.0.proj_out``.
    """
    names = dict.fromkeys(name for own in kept for name in (own, runtime_name(preset, own)))
    return {name: {"bits": 16, "data_type": "float"} for name in names}


def runtime_name(preset: Preset, name: str) -> str:
    """Name of the layer that a linear ends up in, e.g. ``blocks.0.attn1.to_qkv``."""
    owner, _, part = name.rpartition(".")
    for group in preset.fused:
        if part in group.parts and owner.rpartition(".")[2] == group.parent:
            return f"{owner}.{group.runtime}"
    for own, other in preset.renamed:
        name = name.replace(own, other)
    return name
