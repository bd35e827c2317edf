"""NVFP4, MXFP8 and MXFP4 on CPU, on reference kernels; vLLM 0.30.0 lists none for CPU.

Its emulations are not taken: that of MXFP8 keeps a 16-bit copy of the weight and leaves inputs in
16 bits, that of MXFP4 needs amd-quark, and that of NVFP4 rounds the weight to 16 bits once more.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import Module
from vllm.model_executor.kernels import linear as kernels
from vllm.model_executor.kernels.linear import (
    MxFp4LinearKernel,
    MxFp4LinearLayerConfig,
    Mxfp8LinearKernel,
    NvFp4LinearKernel,
)
from vllm.model_executor.layers.quantization.utils.quant_utils import kMxfp4Dynamic
from vllm.platforms import PlatformEnum

from workbench.serve.cpu import formats


def register() -> None:
    """Offer each kernel for its format."""
    for table, kernel in (
        (kernels._POSSIBLE_NVFP4_KERNELS, ReferenceNvFp4LinearKernel),
        (kernels._POSSIBLE_MXFP8_KERNELS, ReferenceMxfp8LinearKernel),
        (kernels._POSSIBLE_MXFP4_KERNELS, ReferenceMxFp4LinearKernel),
    ):
        candidates = table.setdefault(PlatformEnum.CPU, [])
        if kernel not in candidates:
            candidates.insert(0, kernel)


class _Reference:
    """What the three share: they run everywhere, and take the weight as the file has it."""

    reference_kernel = True

    @classmethod
    def is_supported(cls, compute_capability: int | None = None) -> tuple[bool, str | None]:
        return True, None

    @classmethod
    def can_implement(cls, c: Any) -> tuple[bool, str | None]:
        return True, None

    def process_weights_after_loading(self, layer: Module) -> None:
        return


class ReferenceNvFp4LinearKernel(_Reference, NvFp4LinearKernel):
    """NVFP4 weights and inputs: right numerics, no speed.

    Each 16 channels share an E4M3 scale in units of one float32 scale, which is calibrated for the
    inputs (https://arxiv.org/abs/2509.25149); the product is summed in float32. The weight stays
    packed in memory.
    """

    def apply_weights(
        self, layer: Module, x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        weight = formats.nvfp4_weight(layer.weight, layer.weight_scale, layer.weight_global_scale)
        rounded = formats.nvfp4_rounded(x, layer.input_global_scale)
        return formats.product(rounded, weight.t(), bias, x.dtype)


class ReferenceMxfp8LinearKernel(_Reference, Mxfp8LinearKernel):
    """MXFP8 weights and inputs: right numerics, no speed.

    Each 32 channels share a power of two; OCP Microscaling Formats 1.0. The product is summed in
    float32. The weight stays FP8 in memory.
    """

    def apply_weights(
        self, layer: Module, x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        weight = formats.mxfp8_weight(layer.weight, layer.weight_scale)
        return formats.product(formats.mxfp8_rounded(x), weight.t(), bias, x.dtype)


class ReferenceMxFp4LinearKernel(_Reference, MxFp4LinearKernel):
    """MXFP4 weights and inputs: right numerics, no speed.

    Each 32 channels share a power of two; OCP Microscaling Formats 1.0. The product is summed in
    float32. The weight stays packed in memory.
    """

    @classmethod
    def can_implement(cls, c: MxFp4LinearLayerConfig) -> tuple[bool, str | None]:
        if c.activation_quant_key in (None, kMxfp4Dynamic):
            return True, None
        return False, "takes MXFP4 inputs, or 16-bit ones"

    def apply_weights(
        self, layer: Module, x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        weight = formats.mxfp4_weight(layer.weight, layer.weight_scale)
        weight_only = self.config.activation_quant_key is None
        rounded = x if weight_only else formats.mxfp4_rounded(x)
        return formats.product(rounded, weight.t(), bias, x.dtype)
