"""FP8 on CPU, on a reference kernel: vLLM's CPU build has no FP8 operators at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import Module
from vllm import _custom_ops as ops
from vllm.model_executor.kernels import linear as kernels
from vllm.model_executor.kernels.linear.scaled_mm import (
    FP8ScaledMMLinearKernel,
    FP8ScaledMMLinearLayerConfig,
    ScaledMMLinearKernel,
)
from vllm.platforms import PlatformEnum

from workbench.serve.cpu import formats


def register() -> None:
    """Offer the kernel before vLLM's own, whose product takes minutes, and the operator."""
    ops.scaled_fp8_quant = scaled_fp8_quant
    candidates = kernels._POSSIBLE_FP8_KERNELS[PlatformEnum.CPU]
    if ReferenceFp8LinearKernel not in candidates:
        candidates.insert(0, ReferenceFp8LinearKernel)


class ReferenceFp8LinearKernel(FP8ScaledMMLinearKernel):
    """W8A8 in FP8 E4M3: right numerics, no speed.

    y = (Q(x) Q(W)) s_x s_W + b with Q(v) = e4m3(v / s_v), the product summed in float32
    (https://arxiv.org/abs/2209.05433). s_W is one number or one an output channel; s_x is
    calibrated, or max|x| / 448 of the whole input or of each token. Weights stay FP8 in memory;
    torch's own ``_scaled_mm`` does the same sum on CPU about a thousand times slower than BF16.
    """

    reference_kernel = True

    def __init__(self, c: FP8ScaledMMLinearLayerConfig, layer_param_names: Sequence[str]) -> None:
        # Not FP8ScaledMMLinearKernel's, which compiles a quantizer that is not used here.
        ScaledMMLinearKernel.__init__(self, c, layer_param_names)

    @classmethod
    def is_supported(cls, compute_capability: int | None = None) -> tuple[bool, str | None]:
        return True, None

    @classmethod
    def can_implement(cls, c: FP8ScaledMMLinearLayerConfig) -> tuple[bool, str | None]:
        shape = c.activation_quant_key.scale.group_shape
        if shape.is_per_tensor() or shape.is_per_token():
            return True, None
        return False, "takes one input scale, or one a token"

    def apply_weights(
        self, layer: Module, x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        weight, weight_scale, input_scale, upper = self._get_layer_params(layer)  # [in, out]
        per_token = self.config.activation_quant_key.scale.group_shape.is_per_token()
        rows, input_scale = scaled_fp8_quant(
            x.reshape(-1, x.shape[-1]),
            input_scale,
            scale_ub=upper,
            use_per_token_if_dynamic=per_token,
        )
        result = rows.float() @ weight.float() * input_scale * weight_scale.reshape(1, -1)
        if bias is not None:
            result += bias.float()
        return result.to(self.config.out_dtype or x.dtype).reshape(*x.shape[:-1], -1)

    def apply_scaled_mm(self, **operands: Any) -> torch.Tensor:
        raise NotImplementedError("apply_weights does the whole product here")


def scaled_fp8_quant(
    input: torch.Tensor,
    scale: torch.Tensor | None = None,
    num_token_padding: int | None = None,
    scale_ub: torch.Tensor | None = None,
    use_per_token_if_dynamic: bool = False,
    **unused: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """VLLM's operator of this name, in torch: ``input`` [n, k] to E4M3 and its float32 scale.

    Raises:
        NotImplementedError: an option that no CPU path asks for.
    """
    given = {name: value for name, value in unused.items() if value is not None}
    if given or num_token_padding is not None:
        raise NotImplementedError(
            f"scaled_fp8_quant on CPU knows no {sorted(given) or 'num_token_padding'}"
        )
    values = input.float()
    if scale is None:
        largest = (
            values.abs().amax(-1, keepdim=True)
            if use_per_token_if_dynamic
            else values.abs().max().view(1)
        )
        largest = largest if scale_ub is None else largest.clamp(max=scale_ub)
        scale = (largest / formats.E4M3_MAX).clamp(min=formats.SMALLEST_SCALE)
    return formats.to_e4m3(values, scale), scale
