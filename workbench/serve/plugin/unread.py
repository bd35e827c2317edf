"""FP8 weights whose scales nobody reads are an error.

An entry ``quant_method: fp8`` without ``is_checkpoint_fp8_serialized: true`` means to stock
vLLM-Omni that the weights are 16 bit and to be quantized while loading
(vllm_omni/quantization/factory.py:331 calls a constructor whose default is False); a folder without
an entry means 16 bit as well. Stored FP8 is then loaded as the numbers it holds, without their
scales.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import torch
from torch.nn import Module
from vllm.model_executor.layers.linear import LinearBase, UnquantizedLinearMethod
from vllm_omni.diffusion.model_loader.diffusers_loader import DiffusersPipelineLoader

SCALES = ("weight_scale", "weight_scale_inv")
EIGHT_BIT = (torch.float8_e4m3fn, torch.float8_e5m2)


def register() -> None:
    """Look at every tensor on its way to the model."""
    if not hasattr(DiffusersPipelineLoader.get_all_weights, "__wrapped__"):
        DiffusersPipelineLoader.get_all_weights = _watched(DiffusersPipelineLoader.get_all_weights)


def _watched(get: Callable[..., Iterator[tuple[str, torch.Tensor]]]) -> Callable[..., Any]:
    @wraps(get)
    def watched(self: Any, model: Module, **options: Any) -> Iterator[tuple[str, torch.Tensor]]:
        scaled, stored = set(), set()
        for name, tensor in get(self, model, **options):
            owner, _, part = name.rpartition(".")
            if part in SCALES:
                scaled.add(owner)
            elif tensor.dtype in EIGHT_BIT:
                stored.add(owner)
            yield name, tensor
        lost = sorted(scaled & stored)
        if lost and not _reads_scales(self.quant_config, model):
            raise ValueError(
                f"{len(lost)} weights are stored in FP8 with a scale, {lost[0]} the first, but the "
                "transformer's config.json does not say so: add a quantization_config with "
                '"quant_method": "fp8" and "is_checkpoint_fp8_serialized": true'
            )

    return watched


def _reads_scales(config: Any, model: Module) -> bool:
    if config is not None:
        return getattr(config, "is_checkpoint_fp8_serialized", True)
    return any(  # a second expert may have an entry of its own
        isinstance(module, LinearBase)
        and not isinstance(module.quant_method, UnquantizedLinearMethod)
        for module in model.modules()
    )
