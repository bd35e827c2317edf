"""BF16 convolutions on CPUs without BF16 arithmetic: the same sum in float32, 20 times as fast.

torch 2.13 gives a BF16 convolution to oneDNN only where the CPU has AVX512 or better, and elsewhere
runs a plain loop: decoding one picture then takes minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.nn import functional

NAMES = ("conv1d", "conv2d", "conv3d")


def register() -> None:
    """Take float32 for the sum where oneDNN has no BF16."""
    if torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return
    for name in NAMES:
        stock = getattr(functional, name)
        if not hasattr(stock, "__wrapped__"):
            setattr(functional, name, _in_float32(stock))


def _in_float32(convolve: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Products of BF16 numbers are exact in float32; the result is rounded once, as it was."""

    @wraps(convolve)
    def convolved(
        input: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        *rest: Any,
        **named: Any,
    ) -> torch.Tensor:
        if input.dtype != torch.bfloat16 or input.device.type != "cpu":
            return convolve(input, weight, bias, *rest, **named)
        wide = None if bias is None else bias.float()
        return convolve(input.float(), weight.float(), wide, *rest, **named).to(input.dtype)

    return convolved
