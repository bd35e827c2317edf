"""FP8 linears take inputs that do not lie in one piece.

Stock vLLM views the input as rows (kernels/linear/scaled_mm/ScaledMMLinearKernel.py:155,
BlockScaledMMLinearKernel.py:116). The joint attention of vLLM-Omni's models hands on slices along
the sequence (diffusion/models/qwen_image/qwen_image_transformer.py:774), which lie in one piece for
a single picture alone: with two in a batch FP8 ends in ``view size is not compatible``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from vllm.model_executor.kernels.linear.scaled_mm.BlockScaledMMLinearKernel import (
    Fp8BlockScaledMMLinearKernel,
)
from vllm.model_executor.kernels.linear.scaled_mm.ScaledMMLinearKernel import (
    FP8ScaledMMLinearKernel,
)

VIEWING = (FP8ScaledMMLinearKernel, Fp8BlockScaledMMLinearKernel)


def register() -> None:
    """Copy such inputs before they are viewed."""
    for kernel in VIEWING:
        if not hasattr(kernel.apply_weights, "__wrapped__"):
            kernel.apply_weights = _in_one_piece(kernel.apply_weights)


def _in_one_piece(apply: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @wraps(apply)
    def applied(self: Any, layer: Any, x: Any, *rest: Any, **named: Any) -> torch.Tensor:
        whole = x.contiguous() if isinstance(x, torch.Tensor) else x
        return apply(self, layer, whole, *rest, **named)

    return applied
