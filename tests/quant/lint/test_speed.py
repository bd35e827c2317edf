"""A folder of the size of Qwen-Image, of sparse files, is linted in seconds."""

from __future__ import annotations

import json
import struct
import time
from math import prod
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from workbench.zoo.headers import BITS

Shapes = dict[str, tuple[str, tuple[int, ...]]]
BLOCKS, WIDTH, INNER = 60, 3072, 12288
SHARD_BYTES = 5_000_000_000


def block(number: int) -> dict[str, tuple[int, int]]:
    """[outputs, inputs] of each linear of one block."""
    at = f"transformer_blocks.{number}"
    attention = (
        "to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj", "add_v_proj", "to_add_out",
    )  # fmt: skip
    found = {f"{at}.attn.{name}": (WIDTH, WIDTH) for name in attention}
    for stream in ("img", "txt"):
        found[f"{at}.{stream}_mlp.net.0.proj"] = (INNER, WIDTH)
        found[f"{at}.{stream}_mlp.net.2"] = (WIDTH, INNER)
        found[f"{at}.{stream}_mod.1"] = (6 * WIDTH, WIDTH)
    return found


def bf16(name: str, outputs: int, inputs: int) -> Shapes:
    return {f"{name}.weight": ("BF16", (outputs, inputs)), f"{name}.bias": ("BF16", (outputs,))}


def nvfp4(name: str, outputs: int, inputs: int) -> Shapes:
    if "_mod." in name:
        return bf16(name, outputs, inputs)
    return {
        f"{name}.weight": ("U8", (outputs, inputs // 2)),
        f"{name}.weight_scale": ("F8_E4M3", (outputs, inputs // 16)),
        f"{name}.weight_scale_2": ("F32", ()),
        f"{name}.input_scale": ("F32", ()),
        f"{name}.bias": ("BF16", (outputs,)),
    }


def w4a16(name: str, outputs: int, inputs: int) -> Shapes:
    if "img_mod" in name:
        return bf16(name, outputs, inputs)
    return {
        f"{name}.qweight": ("I32", (inputs // 8, outputs)),
        f"{name}.qzeros": ("I32", (inputs // 128, outputs // 8)),
        f"{name}.scales": ("F16", (inputs // 128, outputs)),
        f"{name}.bias": ("BF16", (outputs,)),
    }


def sparse(folder: Path, tensors: Shapes) -> int:
    """Shards of zeros with an index; the bytes that they claim."""
    shards: list[dict[str, Any]] = [{}]
    end = 0
    weight_map = {}
    for name, (dtype, shape) in tensors.items():
        size = prod(shape) * BITS[dtype] // 8
        if end + size > SHARD_BYTES:
            shards.append({})
            end = 0
        shards[-1][name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        weight_map[name] = len(shards)
        end += size
    names = [f"model-{n + 1:05d}-of-{len(shards):05d}.safetensors" for n in range(len(shards))]
    total = 0
    folder.mkdir(parents=True, exist_ok=True)
    for file, header in zip(names, shards, strict=True):
        text = json.dumps(header).encode()
        size = max(entry["data_offsets"][1] for entry in header.values())
        with (folder / file).open("wb") as stream:
            stream.write(struct.pack("<Q", len(text)) + text)
            stream.truncate(8 + len(text) + size)
        total += size
    index = {"metadata": {"total_size": total}, "weight_map": {}}
    index["weight_map"] = {name: names[number - 1] for name, number in weight_map.items()}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return total


def pipeline(folder: Path, layout: Any, quantization: dict[str, Any] | None) -> int:
    tensors: Shapes = {}
    for number in range(BLOCKS):
        for name, shape in block(number).items():
            tensors |= layout(name, *shape)
    outside = {"img_in": (WIDTH, 64), "txt_in": (WIDTH, 3584), "proj_out": (64, WIDTH)}
    for name, shape in outside.items():
        tensors |= bf16(name, *shape)
    text = {f"model.layers.{n}.mlp.weight": ("BF16", (16384, 18000)) for n in range(28)}
    total = sparse(folder / "transformer", tensors) + sparse(folder / "text_encoder", text)
    config = {"_class_name": "QwenImageTransformer2DModel", "num_attention_heads": 24}
    said = {"quantization_config": quantization} if quantization else {}
    (folder / "transformer/config.json").write_text(json.dumps({**config, **said}))
    (folder / "text_encoder/config.json").write_text("{}")
    index = {
        "_class_name": "QwenImagePipeline",
        "transformer": ["diffusers", "QwenImageTransformer2DModel"],
        "text_encoder": ["transformers", "Qwen2_5_VLForConditionalGeneration"],
    }
    (folder / "model_index.json").write_text(json.dumps(index))
    return total


@pytest.mark.parametrize(
    ("layout", "quantization", "rule"),
    [
        (bf16, None, "no-quantization"),
        (
            w4a16,
            {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True},
            "packing-zeros",
        ),
        (
            nvfp4,
            {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": []},
            "scale-values",
        ),
    ],
    ids=["BF16", "W4A16", "NVFP4"],
)
def test_a_folder_of_that_size_takes_two_seconds(
    layout: Any, quantization: dict[str, Any] | None, rule: str, tmp_path: Path
) -> None:
    """Processor time, as other work may share the machine; nothing here waits for a disk."""
    total = pipeline(tmp_path, layout, quantization)
    assert total > (54e9 if quantization is None else 26e9)
    taken = []
    for _ in range(2):
        started = time.process_time()
        report = wb.lint(tmp_path)
        taken.append(time.process_time() - started)
    assert min(taken) < 2
    assert rule in {finding.rule for finding in report.findings}
    assert "scales-sampled" not in {finding.rule for finding in report.findings}


def test_beyond_the_budget_scales_are_sampled_and_that_is_said(tmp_path: Path) -> None:
    said = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": []}
    pipeline(tmp_path, nvfp4, said)
    report = wb.lint(tmp_path, scale_bytes=1 << 20)
    (note,) = [f for f in report.findings if f.rule == "scales-sampled"]
    # All but the scalars: 12 linears of each of 60 blocks.
    assert note.message.startswith("720 of 2160 scale tensors were read in parts only")
