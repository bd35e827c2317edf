"""The number formats of the mission, as data: what is stored, what is loaded, what to expect.

Layouts are those that AutoRound 0.16, ModelOpt 0.47 and vLLM 0.30 share.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One way of holding the weight of a linear, and of feeding it."""

    name: str
    label: str
    """For tables."""
    bits: float
    """Stored bits a weight, scales included, at the default block."""
    block: int = 0
    """Input channels that share one scale; 0 means a whole row, or the whole weight."""
    weight: str = "weight"
    """Last part of the weight tensor's name in a file."""
    stored: str
    """Its dtype in a file, by safetensors' name."""
    scales: tuple[str, ...] = ()
    """Last parts of the tensors that must lie beside it."""
    loaded: tuple[str, ...]
    """torch dtypes in which the engine may hold it."""
    activations: str = "16-bit"
    """What the format does to the inputs of the linear."""
    error: tuple[float, float]
    """Relative error of a weight rounded this way that nobody need worry about, low and high."""


SIXTEEN_BIT = ("BF16", "F16", "F32")
BF16 = "BF16"
_SCHEMES = (
    Scheme(
        name="W4A16", label="W4A16", bits=4.15625, block=128, weight="qweight", stored="I32",
        scales=("qzeros", "scales"), loaded=("int32", "uint8"), error=(0.03, 0.35),
    ),
    Scheme(
        name="W8A16", label="W8A16", bits=8.1875, block=128, weight="qweight", stored="I32",
        scales=("qzeros", "scales"), loaded=("int32", "uint8"), error=(0.002, 0.03),
    ),
    Scheme(
        name="FP8", label="ModelOpt FP8", bits=8, stored="F8_E4M3",
        scales=("weight_scale", "input_scale"), loaded=("float8_e4m3fn",),
        activations="FP8, one calibrated scale", error=(0.01, 0.06),
    ),
    Scheme(
        name="FP8_PER_CHANNEL_PER_TOKEN", label="ModelOpt FP8 dynamic", bits=8, stored="F8_E4M3",
        scales=("weight_scale",), loaded=("float8_e4m3fn",),
        activations="FP8, a scale a token", error=(0.01, 0.05),
    ),
    Scheme(
        name="NVFP4", label="NVFP4", bits=4.5, block=16, stored="U8",
        scales=("weight_scale", "weight_scale_2", "input_scale"), loaded=("uint8", "int32"),
        activations="NVFP4, a scale per 16 channels", error=(0.04, 0.2),
    ),
    Scheme(
        name="MXFP8", label="MXFP8", bits=8.25, block=32, stored="F8_E4M3",
        scales=("weight_scale",), loaded=("float8_e4m3fn", "int32"),
        activations="MXFP8, a scale per 32 channels", error=(0.01, 0.06),
    ),
    Scheme(
        name="MXFP4", label="MXFP4", bits=4.25, block=32, weight="weight_packed", stored="U8",
        scales=("weight_scale",), loaded=("uint8", "int32"),
        activations="MXFP4, a scale per 32 channels", error=(0.04, 0.25),
    ),
)  # fmt: skip
SCHEMES = {scheme.name: scheme for scheme in _SCHEMES}
INTEGER = ("W4A16", "W8A16")
MIXED = "MIXED"
"""Several schemes in one transformer, chosen layer by layer."""
