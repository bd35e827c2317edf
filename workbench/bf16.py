"""BF16 convolutions and linears on CPUs without BF16 arithmetic: the same sums in float32, faster.

torch 2.13 gives them to oneDNN only where the CPU has AVX512 or better, and elsewhere runs plain
loops: a convolution is then 20 times slower than in float32, a linear 5 times. Nor does it give
oneDNN the float32 convolutions of short clips, which take 4 to 9 times as long without.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.nn import functional

NAMES = ("conv1d", "conv2d", "conv3d", "linear")


def register() -> None:
    """Take float32 for the sum where oneDNN has no BF16; again is harmless."""
    if torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return
    for name in NAMES:
        function = getattr(functional, name)
        if not hasattr(function, "__wrapped__"):
            fast = _by_onednn(function) if name == "conv3d" else function
            setattr(functional, name, _in_float32(fast))


def _by_onednn(stock: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Three-dimensional convolution that oneDNN sums whatever its size.

    A batch of one with fewer than 20480 rows over all its channels and frames (use_mkldnn in ATen's
    Convolution.cpp) goes to loops otherwise; the chunks of a causal VAE are such.
    """

    @wraps(stock)
    def convolved(
        input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *rest: Any,
        **named: Any,
    ) -> torch.Tensor:  # fmt: skip
        plain = input.ndim == 5 and input.dtype == weight.dtype == torch.float32
        stride, padding, dilation, groups = (*rest, *(1, 0, 1, 1)[len(rest) :])
        if input.device.type != "cpu" or not plain or named or isinstance(padding, str):
            return stock(input, weight, bias, *rest, **named)
        sizes = ([n] * 3 if isinstance(n, int) else list(n) for n in (padding, stride, dilation))
        return torch.mkldnn_convolution(input, weight, bias, *sizes, groups)

    return convolved


def _in_float32(stock: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Products of BF16 numbers are exact in float32; the result is rounded once, as it was."""

    @wraps(stock)
    def summed(
        input: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        *rest: Any,
        **named: Any,
    ) -> torch.Tensor:
        if input.device.type != "cpu" or _computed_in(input) != torch.bfloat16:
            return stock(input, weight, bias, *rest, **named)
        wide = (None if one is None else one.bfloat16().float() for one in (input, weight, bias))
        with torch.autocast("cpu", enabled=False):
            return stock(*wide, *rest, **named).bfloat16()

    return summed


def _computed_in(input: torch.Tensor) -> torch.dtype:
    """What torch would compute in: video models decode float32 weights under autocast."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else input.dtype
