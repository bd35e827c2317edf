"""Which linears inside the transformer blocks vLLM-Omni 0.30.0 keeps in 16 bit, and why. Data.

Linears outside the repeated blocks (embedders, final norm and projection) are never quantized.
"""

from __future__ import annotations

from dataclasses import dataclass

BLOCKS = ("transformer_blocks.", "single_transformer_blocks.", "blocks.")
OUTSIDE = "outside the transformer blocks: embedders, final norm and projection run in 16 bit"


@dataclass(frozen=True, slots=True)
class Kept:
    """One rule: linears whose name contains ``pattern``, under these methods."""

    pattern: str
    reason: str
    schemes: tuple[str, ...] = ("FP8", "INT8", "W4A16")


KEPT: dict[str, tuple[Kept, ...]] = {
    "qwen-image": (
        Kept(
            ".img_mod.", "modulation of the image stream is sensitive; built without quantization"
        ),
        Kept(
            ".txt_mod.",
            "modulation of the text stream is sensitive; only AutoRound quantizes it",
            ("FP8", "INT8"),
        ),
    ),
    "flux": (
        Kept(
            "transformer.transformer_blocks.",
            "dual-stream blocks are quantized by AutoRound only",
            ("FP8", "INT8"),
        ),
        Kept(
            ".norm.linear",
            "adaptive norm of the single-stream blocks is sensitive",
            ("FP8", "INT8"),
        ),
    ),
    "wan": (),
}


def reason(family: str, scheme: str, name: str) -> tuple[str, bool]:
    """Why a linear stayed in 16 bit, and whether the model's own code keeps it there."""
    _, _, inner = name.partition(".")
    if not inner.startswith(BLOCKS):
        return OUTSIDE, True
    for rule in KEPT[family]:
        if rule.pattern in name and scheme in rule.schemes:
            return rule.reason, True
    return f"not quantized, although {scheme} covers it", False
