"""One vLLM linear of each stored scheme, filled as a checkpoint would fill it, on any platform.

Its weight in float32, and what the scheme does to inputs, come from the reference numerics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from workbench.torchvision_ops import define_missing

define_missing()

from workbench.serve.cpu import formats  # noqa: E402

IN, OUT, GROUP = 256, 384, 128
BIAS = torch.linspace(-1, 1, OUT).bfloat16()
INPUT_SCALE = {"FP8": 5 / 448, "NVFP4": 5 / 2688}  # of inputs that reach 5


@dataclass
class Packed:
    """What a file holds of one linear, and what it means."""

    tensors: dict[str, Tensor]
    weight: Tensor
    """float32 [out, in]."""
    rounded: Callable[[Tensor], Tensor]
    """Inputs as the scheme sees them, float32."""


def source() -> Tensor:
    return torch.randn(OUT, IN, generator=torch.Generator().manual_seed(0)) / IN**0.5


def fp8() -> Packed:
    weight, scale = source(), torch.tensor(INPUT_SCALE["FP8"])
    step = (weight.abs().max() / 448).reshape(1)
    stored = formats.to_e4m3(weight, step)
    return Packed(
        {"weight": stored, "weight_scale": step, "input_scale": scale.reshape(1)},
        stored.float() * step,
        lambda x: formats.to_e4m3(x, scale).float() * scale,
    )


def fp8_per_channel() -> Packed:
    weight = source()
    step = weight.abs().amax(1) / 448
    stored = formats.to_e4m3(weight, step[:, None])

    def rounded(x: Tensor) -> Tensor:
        scale = x.float().abs().amax(-1, keepdim=True) / 448
        return formats.to_e4m3(x, scale).float() * scale

    tensors = {"weight": stored, "weight_scale": step}
    return Packed(tensors, stored.float() * step[:, None], rounded)


def e2m1_codes(values: Tensor) -> Tensor:
    """Pairs of codes in bytes of values that E2M1 holds."""
    table = torch.tensor(formats.E2M1_VALUES)
    codes = torch.searchsorted(table, values.abs()) + 8 * (values < 0)
    return (codes[:, ::2] | codes[:, 1::2] << 4).to(torch.uint8)


def nvfp4() -> Packed:
    blocks = source().unflatten(-1, (-1, 16))
    whole = blocks.abs().max() / (6 * 448)
    scale = formats.to_e4m3(blocks.abs().amax(-1) / 6, whole)
    values = formats.round_e2m1(blocks / (scale.float() * whole)[..., None]).flatten(-2)
    packed, inputs = e2m1_codes(values), torch.tensor(INPUT_SCALE["NVFP4"])
    return Packed(
        {
            "weight": packed,
            "weight_scale": scale,
            "weight_scale_2": whole.reshape(1),
            "input_scale": inputs.reshape(1),
        },
        formats.nvfp4_weight(packed, scale, whole),
        lambda x: formats.nvfp4_rounded(x, inputs),
    )


def powers(largest: float) -> tuple[Tensor, Tensor]:
    """The weight in blocks of 32, and the power of two that keeps each within ``largest``."""
    blocks = source().unflatten(-1, (-1, 32))
    return blocks, torch.ceil(torch.log2(blocks.abs().amax(-1) / largest))


def mxfp8() -> Packed:
    blocks, power = powers(448)
    stored = formats.to_e4m3(blocks, torch.exp2(power)[..., None]).flatten(-2)
    scale = (power + 127).to(torch.uint8)
    tensors = {"weight": stored, "weight_scale": scale}
    return Packed(tensors, formats.mxfp8_weight(stored, scale), formats.mxfp8_rounded)


def mxfp4() -> Packed:
    blocks, power = powers(6)
    packed = e2m1_codes(formats.round_e2m1(blocks / torch.exp2(power)[..., None]).flatten(-2))
    scale = (power + 127).to(torch.uint8)
    tensors = {"weight_packed": packed, "weight_scale": scale}
    return Packed(tensors, formats.mxfp4_weight(packed, scale), formats.mxfp4_rounded)


def integers(bits: int) -> Packed:
    groups = source().t().unflatten(0, (-1, GROUP))  # [groups, group, out]
    middle = 2 ** (bits - 1)
    scales = (groups.abs().amax(1) / (middle - 1)).bfloat16()
    codes = torch.round(groups / scales.float()[:, None]).int().flatten(0, 1) + middle
    shifts = torch.arange(0, 32, bits).view(1, -1, 1)
    words = (codes.long().unflatten(0, (-1, 32 // bits)) << shifts).sum(1)
    packed = (words - (words >= 2**31) * 2**32).to(torch.int32)
    zeros = sum((middle - 1) << shift for shift in range(0, 32, bits))
    zeros = torch.full((IN // GROUP, OUT * bits // 32), zeros - 2**32 * (zeros >= 2**31))
    tensors = {"qweight": packed, "scales": scales, "qzeros": zeros.to(torch.int32)}
    return Packed(tensors, formats.integer_weight(packed, scales, bits).t(), lambda x: x.float())


def modelopt(algorithm: str) -> dict[str, Any]:
    producer = {"name": "modelopt", "version": "0.47.0"}
    return {"quant_method": "modelopt", "quant_algo": algorithm, "producer": producer, "ignore": []}


def autoround(bits: int, data_type: str = "int") -> dict[str, Any]:
    packing = {"int": "auto_round:auto_gptq", "mx_fp": "auto_round:llm_compressor"}[data_type]
    group = GROUP if data_type == "int" else 32
    return {
        "quant_method": "auto-round",
        "bits": bits,
        "group_size": group,
        "sym": True,
        "data_type": data_type,
        "packing_format": packing,
    }


SCHEMES: dict[str, tuple[dict[str, Any], Callable[[], Packed]]] = {
    "FP8": (modelopt("FP8"), fp8),
    "FP8_PER_CHANNEL_PER_TOKEN": (modelopt("FP8_PER_CHANNEL_PER_TOKEN"), fp8_per_channel),
    "NVFP4": (modelopt("NVFP4"), nvfp4),
    "MXFP8": (modelopt("MXFP8"), mxfp8),
    "MXFP8 of AutoRound": (autoround(8, "mx_fp"), mxfp8),
    "MXFP4": (autoround(4, "mx_fp"), mxfp4),
    "W4A16": (autoround(4), lambda: integers(4)),
    "W8A16": (autoround(8), lambda: integers(8)),
}


def linear(scheme: str, device: str, kernel: type | None = None) -> tuple[Any, Packed]:
    """The layer with its tensors loaded and handed to its kernel.

    Args:
        scheme: A key of SCHEMES.
        device: ``cpu`` or ``cuda``.
        kernel: Instead of the one that vLLM chooses.
    """
    from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
    from vllm.model_executor.layers.linear import ReplicatedLinear
    from vllm_omni.plugins import load_omni_general_plugins
    from vllm_omni.quantization.factory import build_quant_config

    load_omni_general_plugins()
    from vllm.model_executor import parameter

    entry, make = SCHEMES[scheme]
    packed = make()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with (
            set_current_vllm_config(VllmConfig(device_config=DeviceConfig(device=device))),
            torch.device(device),
            patch.object(parameter, "get_tensor_model_parallel_rank", lambda: 0),
            patch.object(parameter, "get_tensor_model_parallel_world_size", lambda: 1),
        ):
            layer = ReplicatedLinear(
                IN,
                OUT,
                params_dtype=torch.bfloat16,
                quant_config=build_quant_config(dict(entry)),
                prefix="blocks.0.linear",
                disable_tp=True,
            )
            if kernel is not None:
                layer.quant_method.kernel = kernel(layer.quant_method.kernel.config)
            layer.bias.data.copy_(BIAS)
            for name, tensor in packed.tensors.items():
                getattr(layer, name).data.copy_(tensor)
            layer.quant_method.process_weights_after_loading(layer)
    finally:
        torch.set_default_dtype(torch.float32)
    return layer, packed


def error(layer: Any, packed: Packed, x: Tensor, *, weight_only: bool) -> float:
    """Relative L2 between the layer's product and that of the reference numerics."""
    result = layer.quant_method.apply(layer, x, layer.bias).float().cpu()
    inputs = x.float().cpu() if weight_only else packed.rounded(x.cpu())
    wanted = inputs @ packed.weight.t() + BIAS.float()  # Marlin permutes its own copy
    assert result.shape == wanted.shape
    return float(torch.linalg.vector_norm(result - wanted) / torch.linalg.vector_norm(wanted))


def inputs(*shape: int, device: str) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shape, IN, generator=generator).clamp(-5, 5).bfloat16().to(device)
