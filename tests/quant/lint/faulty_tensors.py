"""Faults of tensors: values, shapes, and layers that are packed where they should not be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from faults import FILE, MLP, QKV, plant, quantization, unquantized, weights
from planting import Tensor

ADDED = "transformer_blocks.0.attn.add_k_proj"


@plant("qwen W4A16", "packing-zeros", FILE, f"{QKV}.qzeros", said="holds zero points 8")
def zeros_of_the_second_gptq_format(folder: Path) -> None:
    with weights(folder) as shard:
        shard.tensors[f"{QKV}.qzeros"].u8[:] = 0x88


@plant("qwen W4A16", "packing-zeros", FILE, f"{QKV}.qzeros", said="asymmetric")
def zeros_that_vary(folder: Path) -> None:
    with weights(folder) as shard:
        shard.tensors[f"{QKV}.qzeros"].u8[0] = 0x35


@plant("qwen W4A16", "scale-values", FILE, f"{QKV}.scales", said="1 NaN, 1 infinite")
def scales_not_finite(folder: Path) -> None:
    with weights(folder) as shard:
        halves = np.frombuffer(shard.tensors[f"{QKV}.scales"].data, np.uint16)
        halves[3], halves[5] = 0x7E00, 0x7C00


@plant("qwen MIXED", "scale-values", FILE, f"{MLP}.weight_scale", said="2 NaN of")
def block_scales_past_448(folder: Path) -> None:
    with weights(folder) as shard:
        shard.tensors[f"{MLP}.weight_scale"].u8[[0, 9]] = 0x7F, 0xFF


@plant("qwen MIXED", "scale-values", FILE, f"{MLP}.weight_scale", said="zero throughout")
def block_scales_all_zero(folder: Path) -> None:
    with weights(folder) as shard:
        shard.tensors[f"{MLP}.weight_scale"].u8[:] = 0


@plant("qwen MIXED", "scale-values", FILE, f"{MLP}.input_scale", said="1 negative of 1")
def input_scale_negative(folder: Path) -> None:
    with weights(folder) as shard:
        shard.tensors[f"{MLP}.input_scale"].fill(np.array([-0.5], np.float32))


@plant("qwen MXFP8", "scale-values", FILE, f"{MLP}.weight_scale", said="1 NaN of")
def power_of_two_scale_nan(folder: Path) -> None:
    with weights(folder) as shard:
        shard.tensors[f"{MLP}.weight_scale"].u8[4] = 0xFF


@plant("qwen MIXED", "scale-missing", FILE, "transformer_blocks.0.attn.to_out.0.input_scale",
       said="computes garbage")  # fmt: skip
def static_fp8_without_input_scale(folder: Path) -> None:
    with weights(folder) as shard:
        del shard.tensors["transformer_blocks.0.attn.to_out.0.input_scale"]


@plant("qwen MIXED", "scale-missing", FILE, f"{MLP}.input_scale", said="NVFP4 linear needs it")
def nvfp4_without_input_scale(folder: Path) -> None:
    with weights(folder) as shard:
        del shard.tensors[f"{MLP}.input_scale"]


@plant("qwen MIXED", "pre-quant-scale", FILE, f"{MLP}.pre_quant_scale", said="fold it")
def awq_export(folder: Path) -> None:
    with weights(folder) as shard:
        data = bytearray(np.ones(256, np.float32).tobytes())
        shard.tensors[f"{MLP}.pre_quant_scale"] = Tensor("F32", [256], data)


@plant("qwen MIXED", "fused-scale", FILE, f"{ADDED}.weight_scale", "note", said="10 times smaller")
def fused_fp8_scales_far_apart(folder: Path) -> None:
    with weights(folder) as shard:
        scale = shard.tensors[f"{ADDED}.weight_scale"]
        scale.fill(scale.f32 / 10)


@plant("qwen MIXED", "fused-scale", FILE, f"{QKV}.weight_scale_2", said="2 times smaller")
def fused_nvfp4_scales_differ(folder: Path) -> None:
    with weights(folder) as shard:
        scale = shard.tensors[f"{QKV}.weight_scale_2"]
        scale.fill(scale.f32 / 2)


@plant("qwen W4A16", "dtype-not-planned", FILE, MLP, said="holds BF16")
def packed_layer_is_bf16(folder: Path) -> None:
    unquantized(folder, MLP)


@plant("qwen FP8-dynamic", "dtype-not-planned", FILE, MLP, said="cast without a scale")
def bf16_sibling_taken_for_fp8(folder: Path) -> None:
    unquantized(folder, MLP)


@plant("qwen W4A16", "packed-but-kept", FILE, MLP, said="builds it in 16 bit")
def packed_layer_listed_as_kept(folder: Path) -> None:
    with quantization(folder) as said:
        said["extra_config"][MLP] = {"bits": 16, "data_type": "float"}


@plant("qwen MIXED", "packed-but-kept", FILE, MLP, said="entry 'transformer_blocks.0.img_mlp*'")
def packed_layer_ignored(folder: Path) -> None:
    with quantization(folder) as said:
        said["ignore"].append("transformer_blocks.0.img_mlp*")


@plant("qwen W4A16", "fused-mixed", FILE, "transformer_blocks.0.attn.to_v", said="to_q W4A16")
def fused_member_in_16_bit(folder: Path) -> None:
    unquantized(folder, "transformer_blocks.0.attn.to_v")


@plant("qwen W4A16", "fused-missing", FILE, "transformer_blocks.0.attn.to_v", said="left it out")
def fused_member_gone(folder: Path) -> None:
    with weights(folder) as shard:
        for part in ("qweight", "qzeros", "scales", "bias"):
            del shard.tensors[f"transformer_blocks.0.attn.to_v.{part}"]


@plant("qwen W4A16", "shape", FILE, f"{MLP}.scales", said="the config says 64")
def group_size_not_that_of_the_scales(folder: Path) -> None:
    with quantization(folder) as said:
        said["group_size"] = 64


@plant("qwen W4A16", "shape", FILE, f"{MLP}.qzeros", said="has shape")
def zeros_of_another_layer(folder: Path) -> None:
    with weights(folder) as shard:
        shard.tensors[f"{MLP}.qzeros"] = shard.tensors[f"{QKV}.qzeros"]


@plant("qwen MIXED", "shape", FILE, f"{MLP}.weight_scale", said="blocks of 16 make it")
def block_scales_of_another_layer(folder: Path) -> None:
    with weights(folder) as shard:
        scale = shard.tensors[f"{MLP}.weight_scale"]
        scale.shape, scale.data = [scale.shape[0] // 2, scale.shape[1]], scale.data[::2]
