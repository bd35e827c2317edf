"""AutoRound's W4A16 and W8A16 on CPU: vLLM's kernel where it has one, else a reference kernel.

vLLM 0.30.0 builds ``cpu_gemm_wna16`` for AVX512 and Arm only, 4 bits only, and yet picks the kernel
that calls it on every CPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.nn import Module, Parameter
from vllm.model_executor.kernels import linear as kernels
from vllm.model_executor.kernels.linear import MPLinearKernel, MPLinearLayerConfig
from vllm.model_executor.kernels.linear.mixed_precision.cpu import CPUWNA16LinearKernel
from vllm.model_executor.layers.quantization.auto_gptq import (
    AutoGPTQConfig,
    AutoGPTQLinearMethod,
)
from vllm.model_executor.layers.quantization.inc.inc_linear import INCLinearMethod
from vllm.model_executor.layers.quantization.inc.schemes.inc_wna16_linear import (
    INCWNA16LinearScheme,
)
from vllm.model_executor.layers.quantization.inc.schemes.inc_wna16_scheme import INCWna16Scheme
from vllm.platforms import PlatformEnum
from vllm.scalar_type import scalar_types

from workbench.serve.cpu import formats

TYPES = {scalar_types.uint4b8: 4, scalar_types.uint8b128: 8}  # symmetric: GPTQ's biased integers


def register() -> None:
    """Mend vLLM's kernel, and offer ours for what it cannot run."""
    os.environ["VLLM_CPU_INT4_W4A8"] = "0"  # else AMX machines run W4A16 checkpoints as W4A8
    if not hasattr(CPUWNA16LinearKernel.apply_weights, "__wrapped__"):
        CPUWNA16LinearKernel.apply_weights = _on_matrices(CPUWNA16LinearKernel.apply_weights)
    if not hasattr(INCWna16Scheme.get_linear_method, "__wrapped__"):
        INCWna16Scheme.get_linear_method = _with_eight_bits(INCWna16Scheme.get_linear_method)
    candidates = kernels._POSSIBLE_KERNELS[PlatformEnum.CPU]
    if ReferenceWNA16LinearKernel not in candidates:
        candidates.insert(0, ReferenceWNA16LinearKernel)


def has_own_kernel() -> bool:
    """Whether this build of vLLM has the W4A16 operator for this CPU."""
    return hasattr(torch.ops._C, "cpu_gemm_wna16")


def _on_matrices(apply: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """VLLM's W4A16 kernel reads the row count off the first axis: give it [rows, channels] only."""

    @wraps(apply)
    def flattened(
        self: Any, layer: Module, x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1]).contiguous()
        return apply(self, layer, rows, bias).reshape(*x.shape[:-1], -1)

    return flattened


def _with_eight_bits(get_linear_method: Callable[..., Any]) -> Callable[..., Any]:
    """VLLM refuses 8 bits on CPU before it looks for a kernel (inc_wna16_scheme.py:133)."""

    @wraps(get_linear_method)
    def found(self: Any, config: Any, layer: Module, prefix: str, layer_config: Any) -> Any:
        if layer_config.is_gptq and layer_config.bits == 8 and layer_config.sym:
            return INCLinearMethod(EightBitScheme(layer_config))
        return get_linear_method(self, config, layer, prefix, layer_config)

    return found


class EightBitScheme(INCWNA16LinearScheme):
    """AutoRound's 8 bits without the question whether Marlin, a GPU kernel, takes them."""

    def _build_inner_method(self) -> AutoGPTQLinearMethod:
        config = AutoGPTQConfig(
            weight_bits=self.layer_config.bits,
            group_size=self.layer_config.group_size,
            desc_act=False,
            is_sym=True,
            lm_head_quantized=False,
            dynamic={},
            full_config={},
        )
        return EightBitLinearMethod(config)


class EightBitLinearMethod(AutoGPTQLinearMethod):
    """Loads GPTQ's layout; the kernel is chosen from those of the platform."""

    def __init__(self, quant_config: AutoGPTQConfig) -> None:
        self.quant_config = quant_config
        self.quant_type = quant_config.quant_type
        self.input_dtype = None


class ReferenceWNA16LinearKernel(MPLinearKernel):
    """16-bit inputs times symmetric 4 or 8 bit weights: right numerics, no speed.

    y = x (q - 2 ** (bits - 1)) s + b with a scale s a group of input channels
    (https://arxiv.org/abs/2210.17323), the product summed in float32. The weight stays packed in
    memory as GPTQ lays it out; it is unpacked for each product.
    """

    reference_kernel = True

    @classmethod
    def get_min_capability(cls) -> int:
        return -1

    @classmethod
    def can_implement(cls, c: MPLinearLayerConfig) -> tuple[bool, str | None]:
        if c.weight_type not in TYPES or c.zero_points:
            return False, f"takes {', '.join(map(str, TYPES))} without zero points"
        if has_own_kernel() and CPUWNA16LinearKernel.can_implement(c)[0]:
            return False, "vLLM has a kernel of its own for it"
        return True, None

    def process_weights_after_loading(self, layer: Module) -> None:
        if self.w_zp_name is not None:
            setattr(layer, self.w_zp_name, None)  # symmetric: all the same
        for name in (self.w_q_name, self.w_s_name):
            if getattr(getattr(layer, name), "input_dim", 0) == 1:  # compressed-tensors' [out, in]
                turned = getattr(layer, name).data.t().contiguous()
                setattr(layer, name, Parameter(turned, requires_grad=False))

    def apply_weights(
        self, layer: Module, x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        packed, scales, _ = self._get_weight_params(layer)
        weight = formats.integer_weight(packed, scales, TYPES[self.config.weight_type])
        return formats.product(x, weight, bias, x.dtype)
