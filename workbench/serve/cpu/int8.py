"""INT8 on CPU: vLLM's own kernels (AMX or oneDNN), which vLLM-Omni refuses to use there.

Where a CPU has no VNNI, oneDNN adds pairs of products in 16 bits and saturates
(https://uxlfoundation.github.io/oneDNN/dev_guide_int8_computations.html): its sums are wrong by
percents. There a reference kernel takes its place.
"""

from __future__ import annotations

from functools import cache

import torch
from torch.nn import Module, Parameter
from vllm import _custom_ops as ops
from vllm.model_executor.kernels import linear as kernels
from vllm.model_executor.kernels.linear import (
    CPUInt8ScaledMMLinearKernel,
    Int8ScaledMMLinearKernel,
)
from vllm.model_executor.kernels.linear.scaled_mm import Int8ScaledMMLinearLayerConfig
from vllm.model_executor.layers.linear import LinearBase, UnquantizedLinearMethod
from vllm.model_executor.layers.quantization.base_config import QuantizeMethodBase
from vllm.model_executor.layers.quantization.utils.quant_utils import is_layer_skipped
from vllm.platforms import PlatformEnum
from vllm_omni.quantization.factory import register_quantization_override
from vllm_omni.quantization.int8_config import DiffusionInt8Config, Int8LinearMethod

from workbench.serve.cpu.formats import SMALLEST_SCALE

INT8_MAX = 127
PARAMETERS = ("weight", "weight_scale", "input_scale", "input_zero_point", "azp_adj")


def register() -> None:
    """Make ``int8`` loadable."""
    register_quantization_override("int8", lambda **config: CpuInt8Config(**config))
    candidates = kernels._POSSIBLE_INT8_KERNELS[PlatformEnum.CPU]
    if ReferenceInt8LinearKernel not in candidates:
        candidates.insert(0, ReferenceInt8LinearKernel)


@cache
def is_exact() -> bool:
    """Whether vLLM's own kernel adds up right on this CPU: 64 times 127 x 127, in units of each."""
    inputs, outputs = 64, 32
    config = Int8ScaledMMLinearLayerConfig(
        is_channelwise=True, is_static_input_scheme=False, input_symmetric=True
    )
    kernel = CPUInt8ScaledMMLinearKernel(config, PARAMETERS)
    layer = Module()
    layer.weight = _fixed(torch.full((outputs, inputs), INT8_MAX, dtype=torch.int8))
    layer.weight_scale = _fixed(torch.full((outputs, 1), 1 / INT8_MAX, dtype=torch.float32))
    layer.logical_widths, layer.bias = [outputs], None
    for name in PARAMETERS[2:]:
        setattr(layer, name, None)
    kernel.process_weights_after_loading(layer)
    ones = torch.ones(1, inputs, dtype=torch.get_default_dtype())
    return bool(((kernel.apply_weights(layer, ones) / inputs - 1).abs() < 0.01).all())


def _fixed(values: torch.Tensor) -> Parameter:
    return Parameter(values, requires_grad=False)


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
        # oneDNN packs it out of sight
        layer.workbench_weight = (torch.int8, layer.weight.numel())
        for name in input_names:
            setattr(layer, name, None)
        self.int8_linear.process_weights_after_loading(layer)
        layer._already_called_process_weights_after_loading = True

    def apply(
        self, layer: Module, x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1]).contiguous()  # the AMX kernel takes matrices only
        return self.int8_linear.apply_weights(layer, rows, bias).reshape(*x.shape[:-1], -1)


class ReferenceInt8LinearKernel(Int8ScaledMMLinearKernel):
    """W8A8 in INT8: right numerics, no speed.

    y = (q_x q_W) s_x s_W + b with a scale an output channel and max|x| / 127 of each token
    (https://arxiv.org/abs/2211.10438). Products are summed in float32, which holds them exactly up
    to a sum of 2 ** 24, that of 1040 largest ones.
    """

    reference_kernel = True

    @classmethod
    def is_supported(cls, compute_capability: int | None = None) -> tuple[bool, str | None]:
        return True, None

    @classmethod
    def can_implement(cls, c: Int8ScaledMMLinearLayerConfig) -> tuple[bool, str | None]:
        if c.is_static_input_scheme or not (c.is_channelwise and c.input_symmetric):
            return False, "takes a scale a channel and a symmetric one a token"
        if is_exact():
            return False, "vLLM's own kernel adds up right here"
        return True, None

    def process_weights_after_loading(self, layer: Module) -> None:
        return

    def apply_weights(
        self, layer: Module, x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        weight, weight_scale, *_ = self._get_layer_params(layer)  # [out, in]
        values = x.float()
        largest = values.abs().amax(-1, keepdim=True)
        scale = (largest / INT8_MAX).clamp(min=SMALLEST_SCALE)
        rounded = torch.round(values / scale)
        result = rounded @ weight.float().t() * scale * weight_scale.float().reshape(1, -1)
        return (result if bias is None else result + bias.float()).to(x.dtype)
