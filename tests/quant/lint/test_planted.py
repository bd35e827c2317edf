"""Every planted fault is named: rule, severity, file and tensor; nothing else is an error."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planting import WEIGHTS, Shard, Tensor, config, copy, edited, read, split, write

import workbench as wb

QKV = "transformer_blocks.0.attn.to_q"
MLP = "transformer_blocks.0.img_mlp.net.0.proj"
ADDED = "transformer_blocks.0.attn.add_k_proj"
FILE = f"transformer/{WEIGHTS}"
CONFIG = "transformer/config.json"
INDEX = f"{FILE}.index.json"
FIRST, SECOND = (f"transformer/diffusion_pytorch_model-0000{n}-of-00002.safetensors" for n in "12")
Plant = Callable[[Path], None]


@dataclass(frozen=True)
class Case:
    base: str
    plant: Plant
    rule: str
    file: str
    tensor: str = ""
    severity: str = "error"
    said: str = ""
    """Part of the message."""


CASES: list[Case] = []


def plant(
    base: str, rule: str, file: str, tensor: str = "", severity: str = "error", said: str = ""
) -> Callable[[Plant], Plant]:
    def add(function: Plant) -> Plant:
        CASES.append(Case(base, function, rule, file, tensor, severity, said))
        return function

    return add


@contextmanager
def quantization(folder: Path, component: str = "transformer") -> Iterator[dict[str, Any]]:
    """The quantization config of a component, changed in place."""
    with config(folder / component / "config.json") as content:
        yield content["quantization_config"]


def weights(folder: Path, component: str = "transformer") -> AbstractContextManager[Shard]:
    """The tensors of a component, changed in place."""
    return edited(folder / component / WEIGHTS)


# Files.


@plant("qwen W4A16", "shard-missing", SECOND, said="incomplete copy?")
def shard_deleted(folder: Path) -> None:
    split(folder / "transformer")[1].unlink()


@plant("qwen W4A16", "shard-missing", SECOND, said="the others' numbers")
def shard_deleted_with_the_index(folder: Path) -> None:
    split(folder / "transformer")[1].unlink()
    (folder / INDEX).unlink()


@plant("qwen W4A16", "shard-truncated", FILE, "proj_out.weight", said="cut off")
def shard_cut(folder: Path) -> None:
    with weights(folder) as shard:
        shard.tensors["proj_out.weight"] = shard.tensors.pop("proj_out.weight")  # the last one
    raw = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(raw[:-10])


@plant("qwen W4A16", "header-length", FILE, said="download or save it again")
def header_longer_than_the_file(folder: Path) -> None:
    raw = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes((1 << 40).to_bytes(8, "little") + raw[8:])


@plant("qwen W4A16", "header-corrupt", FILE, said="no JSON")
def header_scrambled(folder: Path) -> None:
    raw = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(raw[:8] + b"x" + raw[9:])


@plant("qwen W4A16", "shard-truncated", FILE, said="no header")
def file_emptied(folder: Path) -> None:
    (folder / FILE).write_bytes(b"")


@plant("qwen W4A16", "tensor-bytes", FILE, f"{QKV}.qweight", said="needs")
def shape_not_of_the_bytes(folder: Path) -> None:
    with weights(folder) as shard:
        shard.tensors[f"{QKV}.qweight"].shape[0] += 1


@plant("qwen W4A16", "dtype-unknown", FILE, f"{QKV}.qweight", said="'I4'")
def dtype_nobody_knows(folder: Path) -> None:
    with weights(folder) as shard:
        shard.tensors[f"{QKV}.qweight"].dtype = "I4"


@plant("qwen W4A16", "tensor-overlap", FILE, "proj_out.weight", said="inside the tensor before")
def tensors_overlap(folder: Path) -> None:
    def change(header: dict) -> None:
        offsets = header["proj_out.weight"]["data_offsets"]
        header["proj_out.weight"]["data_offsets"] = [offsets[0] - 64, offsets[1] - 64]

    with weights(folder) as shard:
        shard.change = change


@plant("qwen W4A16", "shard-surplus", FILE, said="after its last tensor")
def bytes_after_the_end(folder: Path) -> None:
    with (folder / FILE).open("ab") as stream:
        stream.write(b"\0" * 32)


@plant("qwen W4A16", "index-stale", INDEX, f"{QKV}.weight", said="of another checkpoint")
def index_of_the_unquantized(folder: Path) -> None:
    split(folder / "transformer")
    with config(folder / INDEX) as index:
        index["weight_map"][f"{QKV}.weight"] = Path(FIRST).name


@plant("qwen W4A16", "tensor-unindexed", FIRST, "stray.weight", "warning", said="whole files")
def tensor_that_no_index_names(folder: Path) -> None:
    split(folder / "transformer")
    with edited(folder / FIRST) as shard:
        shard.tensors["stray.weight"] = Tensor("F32", [1], bytearray(4))


@plant("qwen W4A16", "tensor-twice", SECOND, f"{QKV}.scales", said="whichever it reads last")
def tensor_in_both_shards(folder: Path) -> None:
    files = split(folder / "transformer")
    scales = {**read(files[0]).tensors, **read(files[1]).tensors}[f"{QKV}.scales"]
    for file in files:
        with edited(file) as shard:
            shard.tensors[f"{QKV}.scales"] = scales


@plant("qwen W4A16", "shard-unindexed", FILE, severity="warning", said="not part of the model")
def single_file_beside_indexed_shards(folder: Path) -> None:
    shard = read(folder / FILE)
    split(folder / "transformer")
    write(folder / FILE, shard)


@plant("qwen W4A16", "single-beside-shards", FILE, said="without an index")
def single_file_beside_shards(folder: Path) -> None:
    single_file_beside_indexed_shards(folder)
    (folder / INDEX).unlink()


@plant("qwen W4A16", "index-size", INDEX, severity="warning", said="total_size says 7")
def index_with_a_wrong_size(folder: Path) -> None:
    split(folder / "transformer")
    with config(folder / INDEX) as index:
        index["metadata"]["total_size"] = 7


@plant("qwen W4A16", "index-twice", "transformer/model.safetensors.index.json", said="several")
def two_indices(folder: Path) -> None:
    split(folder / "transformer")
    raw = (folder / INDEX).read_text()
    (folder / "transformer/model.safetensors.index.json").write_text(raw)


@plant("qwen W4A16", "index-broken", INDEX, said="usable")
def index_that_leads_out_of_the_folder(folder: Path) -> None:
    split(folder / "transformer")
    with config(folder / INDEX) as index:
        index["weight_map"][f"{QKV}.scales"] = "../../vae/diffusion_pytorch_model.safetensors"


@plant("qwen W4A16", "pickle", "transformer/model.bin", severity="warning", said="any code")
def pickle_beside(folder: Path) -> None:
    (folder / "transformer/model.bin").write_bytes(b"\x80\x04.")


@plant("qwen W4A16", "config-broken", CONFIG, said="save it again")
def config_cut(folder: Path) -> None:
    raw = (folder / CONFIG).read_text()
    (folder / CONFIG).write_text(raw[:50])


# What the config says.


@plant("qwen W4A16", "method-unknown", CONFIG, said="intel/auto-round")
def method_nobody_knows(folder: Path) -> None:
    with quantization(folder) as said:
        said["quant_method"] = "magic"


@plant("qwen W4A16", "engine-refuses", CONFIG, said="Unknown quantization method: 'AutoRound'")
def method_spelt_as_the_engine_does_not(folder: Path) -> None:
    with quantization(folder) as said:
        said["quant_method"] = "AutoRound"


@plant("qwen W4A16", "field-missing", CONFIG, said="gives no bits")
def bits_absent(folder: Path) -> None:
    with quantization(folder) as said:
        del said["bits"]


@plant("qwen FP8-dynamic", "algorithm-unknown", CONFIG, said="FP9")
def algorithm_nobody_knows(folder: Path) -> None:
    with quantization(folder) as said:
        said["quant_algo"] = "FP9"


@plant("qwen FP8-dynamic", "flag-missing", CONFIG, said="is_checkpoint_fp8_serialized")
def stored_as_fp8_but_read_as_online(folder: Path) -> None:
    with config(folder / CONFIG) as content:
        content["quantization_config"] = {"quant_method": "fp8", "activation_scheme": "dynamic"}


@plant("qwen W4A16", "config-conflict", "transformer/quantization_config.json", said="bits 8")
def two_configs_differ(folder: Path) -> None:
    said = json.loads((folder / CONFIG).read_text())["quantization_config"]
    (folder / "transformer/quantization_config.json").write_text(json.dumps({**said, "bits": 8}))


@plant("qwen W4A16", "config-conflict", "config.json", said="'modelopt' against 'auto-round'")
def root_config_contradicts(folder: Path) -> None:
    said = {"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8"}}
    (folder / "config.json").write_text(json.dumps(said))


# Numbers.


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


# Layers.


def unquantized(folder: Path, name: str, component: str = "transformer") -> None:
    """Put a BF16 weight in the place of a packed one."""
    with weights(folder, component) as shard:
        owned = [n for n in shard.tensors if n.startswith(f"{name}.") and not n.endswith("bias")]
        packed = shard.tensors[next(n for n in owned if n.endswith(("weight", "qweight")))]
        for one in owned:
            del shard.tensors[one]
        rows, columns = packed.shape
        shape = [columns, rows * 8] if packed.dtype == "I32" else [rows, columns]
        data = bytearray(2 * shape[0] * shape[1])
        shard.tensors[f"{name}.weight"] = Tensor("BF16", shape, data)


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


# Names.


@plant("flux W4A16", "name-suffix", CONFIG, "proj_out", said="single_transformer_blocks.0.proj_out")
def short_name_in_extra_config(folder: Path) -> None:
    with quantization(folder) as said:
        said["extra_config"]["proj_out"] = {"bits": 16}


@plant(
    "flux FP8-dynamic",
    "name-substring",
    CONFIG,
    "proj_out",
    "note",
    said="plugin reads whole names",
)
def short_name_in_ignore(folder: Path) -> None:
    with quantization(folder) as said:
        said["ignore"].append("proj_out")


@plant("qwen MIXED", "fused-unlisted", CONFIG, "transformer_blocks.0.attn.to_qkv", "note",
       said="builds that in 16 bit")  # fmt: skip
def fused_names_left_out(folder: Path) -> None:
    with quantization(folder) as said:
        del said["quantized_layers"]["transformer_blocks.0.attn.to_qkv"]


@plant("qwen FP8-dynamic", "name-unknown", CONFIG, "img_mpl", said="matches no module")
def ignore_with_a_typing_error(folder: Path) -> None:
    with quantization(folder) as said:
        said["ignore"].append("img_mpl")


@plant("wan W4A16", "name-other", CONFIG, "blocks.0.ffn.net.2", "note", said="blocks.0.ffn.net_2")
def kept_by_the_name_of_the_file(folder: Path) -> None:
    unquantized(folder, "blocks.0.ffn.net.2")
    with quantization(folder) as said:
        said["extra_config"] = {"blocks.0.ffn.net.2": {"bits": 16}}


# Components.


@plant("wan W4A16", "coverage", "transformer_2/", severity="warning", said="in 16 bit")
def one_expert_only(folder: Path) -> None:
    shard = read(folder / "transformer_2" / WEIGHTS)
    for name in {n.rpartition(".")[0] for n in shard.tensors if n.endswith(".qweight")}:
        unquantized(folder, name, "transformer_2")
    with config(folder / "transformer_2/config.json") as content:
        del content["quantization_config"]


@plant("wan W4A16", "config-conflict", "transformer_2/config.json", said="one method a pipeline")
def experts_by_different_methods(folder: Path) -> None:
    with config(folder / "transformer_2/config.json") as content:
        content["quantization_config"] = {"quant_method": "modelopt", "quant_algo": "FP8"}


@plant("qwen W4A16", "component-missing", "vae/", said="incomplete copy?")
def vae_not_copied(folder: Path) -> None:
    shutil.rmtree(folder / "vae")


@plant("qwen W4A16", "component-ignored", "text_encoder/", severity="warning", said="source back")
def quantized_text_encoder(folder: Path) -> None:
    with config(folder / "text_encoder/config.json") as content:
        content["quantization_config"] = {"quant_method": "bitsandbytes"}


@plant("qwen W4A16", "path-leaked", CONFIG, severity="note", said="/home/me/model")
def path_of_the_maker(folder: Path) -> None:
    with config(folder / CONFIG) as content:
        content["_name_or_path"] = "/home/me/model"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.plant.__name__)
def test_a_planted_fault_is_named(case: Case, good: Callable[[str], Path], tmp_path: Path) -> None:
    folder = copy(good(case.base), tmp_path / "checkpoint")
    case.plant(folder)
    report = wb.lint(folder)
    found = [f for f in report.findings if f.rule == case.rule and f.file == case.file]
    assert case.tensor in [f.tensor for f in found], str(report)
    (named, *_) = [f for f in found if f.tensor == case.tensor and case.said in f.message]
    assert named.severity == case.severity
    assert report.ok == (not report.of("error"))


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 25
    assert len({case.rule for case in CASES}) >= 25
