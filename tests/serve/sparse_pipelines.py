"""Pipelines of any size as sparse files: headers and configs, and no weights."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from math import prod
from pathlib import Path

from workbench.zoo.headers import BITS

Shapes = dict[str, tuple[str, tuple[int, ...]]]
Packing = Callable[[str, int, int], Shapes]
GPTQ = {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True}
VAE = {"base_dim": 96, "temperal_downsample": [False, True, True]}


def bf16(name: str, outputs: int, inputs: int) -> Shapes:
    return {f"{name}.weight": ("BF16", (outputs, inputs)), f"{name}.bias": ("BF16", (outputs,))}


def w4a16(name: str, outputs: int, inputs: int) -> Shapes:
    if "img_mod" in name or "blocks" not in name:
        return bf16(name, outputs, inputs)
    groups = inputs // 128
    return {
        f"{name}.qweight": ("I32", (inputs // 8, outputs)),
        f"{name}.qzeros": ("I32", (groups, outputs // 8)),
        f"{name}.scales": ("F16", (groups, outputs)),
    }


def save(folder: Path, tensors: Shapes, config: dict[str, object]) -> None:
    header: dict[str, dict[str, object]] = {}
    end = 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + prod(shape) * BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    folder.mkdir(parents=True)
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        stream.truncate(8 + len(text) + end)
    (folder / "config.json").write_text(json.dumps(config))


def qwen_image(
    folder: Path,
    *,
    layers: int = 2,
    heads: int = 24,
    width: int = 3072,
    inner: int = 12288,
    packing: Packing = bf16,
    pipeline: str = "QwenImagePipeline",
) -> Path:
    """Qwen-Image's names and shapes; 60 layers of the default sizes are the real one."""
    tensors: Shapes = {"img_in.weight": ("BF16", (width, 64))}
    for number in range(layers):
        at = f"transformer_blocks.{number}"
        for name in ("to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "to_add_out"):
            tensors |= packing(f"{at}.attn.{name}", width, width)
        tensors |= packing(f"{at}.attn.add_k_proj", width, width)
        tensors |= packing(f"{at}.attn.add_v_proj", width, width)
        tensors[f"{at}.attn.norm_q.weight"] = ("BF16", (128,))
        for stream in ("img", "txt"):
            tensors |= packing(f"{at}.{stream}_mlp.net.0.proj", inner, width)
            tensors |= packing(f"{at}.{stream}_mlp.net.2", width, inner)
            tensors |= packing(f"{at}.{stream}_mod.1", 6 * width, width)
    config: dict[str, object] = {"num_attention_heads": heads}
    if packing is not bf16:
        config["quantization_config"] = GPTQ
    save(folder / "transformer", tensors, config)
    text = {
        "model.layers.0.mlp.weight": ("BF16", (16384, 18000)),
        "visual.blocks.0.weight": ("BF16", (8, 8)),
    }
    save(folder / "text_encoder", text, {})
    save(folder / "vae", {"decoder.conv.weight": ("BF16", (96, 96, 3, 3, 3))}, VAE)
    (folder / "model_index.json").write_text(json.dumps({"_class_name": pipeline}))
    return folder
