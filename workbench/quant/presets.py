"""What offline quantization touches in each family, as data.

A layer may be packed only if vLLM-Omni builds that layer quantized; else its loader stops.
Line numbers are those of vllm-omni 0.30.0, below ``vllm_omni/diffusion/models``.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import SpecError

_QKV = ("to_q", "to_k", "to_v")
_ADDED_QKV = ("add_q_proj", "add_k_proj", "add_v_proj")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Layers inside the blocks that stay in 16 bit."""

    part: str
    """Part of the module's name."""
    reason: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """Projections that vLLM-Omni loads into one layer: all are quantized, or none."""

    parent: str
    """Last part of the owning module's name, e.g. ``attn1``."""
    parts: tuple[str, ...]
    runtime: str
    """Name of the fused layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One family's quantizable layers."""

    family: str
    blocks: tuple[str, ...]
    """Module lists whose linears are quantized; everything outside stays in 16 bit."""
    keep: tuple[Kept, ...] = ()
    fused: tuple[Fused, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    """Parts of names that differ in vLLM-Omni: (diffusers', its own)."""


PRESETS = (
    Preset(
        family="qwen-image",
        blocks=("transformer_blocks",),
        keep=(
            Kept(
                part=".img_mod.",
                reason="vLLM-Omni builds this layer in 16 bit, whatever the checkpoint says",
                source="qwen_image/qwen_image_transformer.py:811",
            ),
        ),
        fused=(
            Fused(parent="attn", parts=_QKV, runtime="to_qkv"),
            Fused(parent="attn", parts=_ADDED_QKV, runtime="add_kv_proj"),
        ),
    ),
    Preset(
        family="flux",
        blocks=("transformer_blocks", "single_transformer_blocks"),
        fused=(
            Fused(parent="attn", parts=_QKV, runtime="to_qkv"),
            Fused(parent="attn", parts=_ADDED_QKV, runtime="add_kv_proj"),
        ),
    ),
    Preset(
        family="wan",
        blocks=("blocks",),
        fused=(Fused(parent="attn1", parts=_QKV, runtime="to_qkv"),),
        renamed=(
            (".ffn.net.0.", ".ffn.net_0."),
            (".ffn.net.2", ".ffn.net_2"),
            (".to_out.0", ".to_out"),
        ),
    ),
)


def preset_of(family: str) -> Preset:
    """The preset of a family.

    Raises:
        SpecError: no offline quantization is known for it.
    """
    for preset in PRESETS:
        if preset.family == family:
            return preset
    known = ", ".join(preset.family for preset in PRESETS)
    raise SpecError(
        f"no quantization preset for the family {family!r}; there are {known}. "
        "Launch the model with quantization='fp8' or 'int8' instead, which needs none"
    )
