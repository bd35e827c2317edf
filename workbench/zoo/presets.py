"""What vLLM-Omni 0.30.0 builds from each family, as data: blocks, fused layers, what stays 16 bit.

Sources are files and lines of vllm-omni 0.30.0, below ``vllm_omni/diffusion/models``.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import SpecError

ONLINE, MODELOPT, AUTOROUND = "online", "modelopt", "auto-round"
EVERY = (ONLINE, MODELOPT, AUTOROUND)
_QKV = ("to_q", "to_k", "to_v")
_ADDED_QKV = ("add_q_proj", "add_k_proj", "add_v_proj")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Linears inside the blocks that the engine builds in 16 bit, whatever the checkpoint says."""

    part: str
    """Part of ``.NAME.``, the dotted name of the module in a file, e.g. ``.img_mod.``."""
    reason: str
    source: str
    methods: tuple[str, ...] = EVERY
    """Ways of quantizing that this holds for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """Projections that vLLM-Omni loads into one layer: all have one scheme."""

    parent: str
    """Last part of the owning module's name, e.g. ``attn1``."""
    parts: tuple[str, ...]
    runtime: str
    """Name of the fused layer."""
    aliases: tuple[str, ...] = ()
    """Other names that recipes call it by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One family as the engine sees it."""

    family: str
    blocks: tuple[str, ...]
    """Module lists whose linears can be quantized; everything outside stays in 16 bit."""
    kept: tuple[Kept, ...] = ()
    fused: tuple[Fused, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    """Parts of names that differ in vLLM-Omni: (the file's, its own)."""
    row_parallel: tuple[str, ...] = ()
    """Ends of names of linears whose inputs tensor parallelism splits."""
    ignored: str = ""
    """Why the engine quantizes nothing of this family, if it does not."""
    offline: bool = True
    """Whether the workbench quantizes it into a checkpoint."""


_FUSED_QKV = Fused(parent="attn", parts=_QKV, runtime="to_qkv", aliases=("qkv_proj", "qkv"))
_FUSED_ADDED = Fused(
    parent="attn", parts=_ADDED_QKV, runtime="add_kv_proj", aliases=("add_qkv_proj",)
)

PRESETS = (
    Preset(
        family="qwen-image",
        blocks=("transformer_blocks",),
        kept=(
            Kept(
                part=".img_mod.",
                reason="modulation of the image stream is sensitive; built without quantization",
                source="qwen_image/qwen_image_transformer.py:811",
            ),
            Kept(
                part=".txt_mod.",
                reason="modulation of the text stream is sensitive; only AutoRound quantizes it",
                source="qwen_image/qwen_image_transformer.py:1079",
                methods=(ONLINE, MODELOPT),
            ),
        ),
        fused=(_FUSED_QKV, _FUSED_ADDED),
        row_parallel=("attn.to_out.0", "attn.to_add_out", "img_mlp.net.2", "txt_mlp.net.2"),
    ),
    Preset(
        family="flux",
        blocks=("transformer_blocks", "single_transformer_blocks"),
        kept=(
            Kept(
                part=".transformer_blocks.",
                reason="dual-stream blocks are quantized by AutoRound only",
                source="flux/flux_transformer.py:583",
                methods=(ONLINE, MODELOPT),
            ),
            Kept(
                part=".norm.linear.",
                reason="adaptive norm of the single-stream blocks is sensitive",
                source="flux/flux_transformer.py:583",
                methods=(ONLINE, MODELOPT),
            ),
        ),
        fused=(_FUSED_QKV, _FUSED_ADDED),
        row_parallel=("attn.to_out.0", "attn.to_add_out", "ff.net.2", "ff_context.net.2"),
    ),
    Preset(
        family="wan",
        blocks=("blocks",),
        fused=(Fused(parent="attn1", parts=_QKV, runtime="to_qkv", aliases=("qkv_proj", "qkv")),),
        renamed=(
            (".ffn.net.0.", ".ffn.net_0."),
            (".ffn.net.2", ".ffn.net_2"),
            (".to_out.0", ".to_out"),
        ),
        row_parallel=("attn1.to_out.0", "attn2.to_out.0", "ffn.net.2"),
    ),
)


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


def kept_reason(preset: Preset, name: str, method: str) -> str | None:
    """Why the engine builds a linear in 16 bit under a method, or None if it quantizes it.

    Args:
        preset: The family's.
        name: Name in the file, without the component, e.g. ``transformer_blocks.0.attn.to_q``.
        method: ``online``, ``modelopt`` or ``auto-round``.
    """
    if preset.ignored:
        return preset.ignored
    if not name.startswith(tuple(f"{block}." for block in preset.blocks)):
        return "outside the transformer blocks: embedders, final norm and projection run in 16 bit"
    for rule in preset.kept:
        if method in rule.methods and rule.part in f".{name}.":
            return rule.reason
    return None
