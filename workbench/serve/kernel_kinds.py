"""What a kernel really is, by the name of its class, as data; the names are vLLM 0.30.0's and ours.

A format that a machine has no arithmetic for still runs there: by a kernel that reads the packed
weight and multiplies in 16 bits, or by an emulation. The audit says which.

Source of the names: ``vllm/model_executor/kernels/linear``, below it the files named in each row.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal

Kind = Literal["native", "weight-only", "emulated", "reference"]
MEANING: dict[Kind, str] = {
    "native": "multiplies as the format says, on hardware units for it where there are any",
    "weight-only": "reads the packed weight, multiplies in 16 bits; activations are not quantized",
    "emulated": "vLLM's software stand-in: the weight is dequantized before a 16-bit product",
    "reference": "the workbench's own: the numerics of the format, no speed",
}
_ROWS: tuple[tuple[str, Kind], ...] = (
    ("Reference*", "reference"),  # workbench/serve/cpu
    ("Emulation*", "emulated"),  # {nvfp4,mxfp8,mxfp4,mxfp6}/emulation.py
    ("*W4A16*", "weight-only"),  # mixed_precision/triton_w4a16.py, nvfp4/flashinfer.py
    ("*W8A16*", "weight-only"),  # scaled_mm/xpu.py
    ("*WNA16*", "weight-only"),  # mixed_precision/cpu.py: the 16-bit path, the only one we leave on
    ("*wNa16*", "weight-only"),  # mixed_precision/xpu.py
    ("Marlin*", "weight-only"),  # {mixed_precision,scaled_mm,nvfp4,mxfp8,mxfp4}/marlin.py
    ("Humming*", "weight-only"),  # */humming.py
    ("Machete*", "weight-only"),  # mixed_precision/machete.py
    ("AllSpark*", "weight-only"),  # mixed_precision/allspark.py
    ("Conch*", "weight-only"),  # mixed_precision/conch.py
    ("Exllama*", "weight-only"),  # mixed_precision/exllama.py
)
SIXTEEN_BIT_BY_DESIGN = ("W4A16", "W8A16")
"""Formats whose activations are 16 bit: a weight-only kernel is the whole of what they ask for."""


def kernel_kind(name: str) -> Kind:
    """Kind of the kernel class ``name``; the first pattern that matches decides.

    A name that no pattern matches is native: vLLM picks it by what the device supports. Torch's
    own product of a plain linear (``torch linear``, ``vLLM CPU linear``) is native at 16 bit.
    """
    return next((kind for pattern, kind in _ROWS if fnmatchcase(name, pattern)), "native")
