"""Faults of what the configs say: methods, names, components."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from faults import CONFIG, plant, quantization, unquantized
from planting import WEIGHTS, config, read


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
