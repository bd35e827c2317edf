"""Low precision on CPU: INT8 on vLLM's own kernels, FP8 on a reference kernel of ours.

The CPU build of vLLM has INT8 kernels (AMX or oneDNN), which vLLM-Omni refuses to use, and no
FP8 quantization operators at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.nn import Module, Parameter
from vllm import _custom_ops as ops
from vllm.model_executor.kernels import linear as kernels
from vllm.model_executor.kernels.linear.mixed_precision.cpu import CPUWNA16LinearKernel
from vllm.model_executor.kernels.linear.scaled_mm.pytorch import (
    PerTensorTorchFP8ScaledMMLinearKernel,
)
from vllm.model_executor.layers import utils as layer_utils
from vllm.model_executor.layers.linear import LinearBase, UnquantizedLinearMethod
from vllm.model_executor.layers.quantization.base_config import QuantizeMethodBase
from vllm.model_executor.layers.quantization.utils.quant_utils import is_layer_skipped
from vllm.platforms import PlatformEnum
from vllm_omni.quantization.factory import register_quantization_override
from vllm_omni.quantization.int8_config import DiffusionInt8Config, Int8LinearMethod

E4M3 = torch.float8_e4m3fn
E4M3_MAX = torch.finfo(E4M3).max
SMALLEST_SCALE = 1e-12  # an all-zero tensor quantizes to zeros, not to NaN


def register() -> None:
    """Make ``int8`` and ``fp8`` loadable on CPU."""
    register_quantization_override("int8", lambda **config: CpuInt8Config(**config))
    ops.scaled_fp8_quant = scaled_fp8_quant
    os.environ["VLLM_CPU_INT4_W4A8"] = "0"  # else AMX machines run W4A16 checkpoints as W4A8
    if not hasattr(layer_utils.dispatch_cpu_unquantized_gemm, "__wrapped__"):
        layer_utils.dispatch_cpu_unquantized_gemm = _remembering(
            layer_utils.dispatch_cpu_unquantized_gemm
        )
    if not hasattr(CPUWNA16LinearKernel.apply_weights, "__wrapped__"):
        CPUWNA16LinearKernel.apply_weights = _on_matrices(CPUWNA16LinearKernel.apply_weights)
    candidates = kernels._POSSIBLE_FP8_KERNELS[PlatformEnum.CPU]
    if ReferenceFp8LinearKernel not in candidates:
        candidates.insert(0, ReferenceFp8LinearKernel)


def _remembering(dispatch: Callable[..., None]) -> Callable[..., None]:
    """VLLM packs 16-bit weights out of sight; keep what they were, for the audit."""

    @wraps(dispatch)
    def remembered(layer: Module, remove_weight: bool) -> None:
        layer.workbench_weight = (layer.weight.dtype, layer.weight.numel())
        dispatch(layer, remove_weight)

    return remembered


def _on_matrices(apply: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """VLLM's W4A16 kernel reads the row count off the first axis: give it [rows, channels] only."""

    @wraps(apply)
    def flattened(
        self: Any, layer: Module, x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1]).contiguous()
        return apply(self, layer, rows, bias).reshape(*x.shape[:-1], -1)

    return flattened


class CpuInt8Config(DiffusionInt8Config):
    """``int8`` for CPU: per-channel weights, per-token dynamic activations."""

    def get_quant_method(self, layer: Module, prefix: str) -> QuantizeMethodBase | None:
        if not isinstance(layer, LinearBase):
            return None
        skipped = is_layer_skipped(
            prefix=prefix,
            ignored_layers=self.ignored_layers,
            fused_mapping=self.packed_modules_mapping,
        )
        return UnquantizedLinearMethod() if skipped else CpuInt8LinearMethod(self)


class CpuInt8LinearMethod(Int8LinearMethod):
    """Weights are loaded whole, then quantized and packed by vLLM's CPU kernel."""

    def __init__(self, quant_config: DiffusionInt8Config) -> None:
        self.quant_config = quant_config
        self.out_dtype = torch.get_default_dtype()
        self.int8_linear = kernels.init_int8_linear_kernel(
            is_channelwise=True,
            is_static_input_scheme=False,
            input_symmetric=True,
            module_name=type(self).__name__,
        )

    def process_weights_after_loading(self, layer: Module) -> None:
        if getattr(layer, "_already_called_process_weights_after_loading", False):
            return
        weight_name, scale_name, *input_names = self.int8_linear.layer_param_names
        if not self.quant_config.is_checkpoint_int8_serialized:
            weight, scale, _ = ops.scaled_int8_quant(layer.weight.data.contiguous(), scale=None)
            layer.register_parameter(weight_name, Parameter(weight, requires_grad=False))
            layer.register_parameter(scale_name, Parameter(scale, requires_grad=False))
        layer.workbench_weight = (
            torch.int8,
            layer.weight.numel(),
        )  # the kernel packs it out of sight
        for name in input_names:
            setattr(layer, name, None)
        self.int8_linear.process_weights_after_loading(layer)
        layer._already_called_process_weights_after_loading = True

    def apply(
        self, layer: Module, x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1]).contiguous()  # the AMX kernel takes matrices only
        return self.int8_linear.apply_weights(layer, rows, bias).reshape(*x.shape[:-1], -1)


class ReferenceFp8LinearKernel(PerTensorTorchFP8ScaledMMLinearKernel):
    """Per-tensor dynamic W8A8 in FP8 E4M3: right numerics, no speed.

    y = (Q(x) Q(W)) s_x s_W + b with Q(v) = e4m3(v / s_v), s_v = max|v| / 448, the product summed
    in float32 (https://arxiv.org/abs/2209.05433). Weights stay FP8 in memory; torch's own
    ``_scaled_mm`` does the same sum on CPU about a thousand times slower than BF16.
    """

    reference_kernel = True

    def get_output_padding(self) -> int | None:
        return None

    def apply_weights(
        self, layer: Module, x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        weight, weight_scale, input_scale, _ = self._get_layer_params(layer)  # weight is [in, out]
        rows, input_scale = scaled_fp8_quant(x.reshape(-1, x.shape[-1]), input_scale)
        product = rows.float() @ weight.float() * (input_scale * weight_scale)
        if bias is not None:
            product += bias.float()
        return product.to(self.config.out_dtype or x.dtype).reshape(*x.shape[:-1], -1)


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
        scale = (largest / E4M3_MAX).clamp(min=SMALLEST_SCALE)
    return (values / scale).clamp(-E4M3_MAX, E4M3_MAX).to(E4M3), scale
