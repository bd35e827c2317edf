"""The linter's picture of the engine against the engine's own code, asked in a process of its own.

vLLM-Omni 0.30.0 builds each config and names the scheme of each layer, first as it comes and then
with the workbench's plugin.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from workbench.quant.lint.acceptance import accepts
from workbench.quant.lint.assignment import assigned
from workbench.quant.lint.methods import canonical
from workbench.zoo.names import file_names, runtime_name
from workbench.zoo.presets import preset_of
from workbench.zoo.repairs import REPAIRS

AR = {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True, "data_type": "int",
      "packing_format": "auto_round:auto_gptq"}  # fmt: skip
MX = {**AR, "bits": 8, "group_size": 32, "data_type": "mx_fp",
      "packing_format": "auto_round:llm_compressor"}  # fmt: skip
MO = {"quant_method": "modelopt", "producer": {"name": "modelopt", "version": "0.47.0"},
      "quant_algo": "FP8", "ignore": []}  # fmt: skip
OLD = {**MO, "producer": {"name": "modelopt", "version": "0.33.0"}}
LAYERS = {"transformer_blocks.0.attn.to_q": {"quant_algo": "FP8"}}
CONFIGS: dict[str, dict[str, Any]] = {
    "autoround": AR,
    "underscore": {**AR, "quant_method": "auto_round"},
    "inc": {**AR, "quant_method": "inc"},
    "one-word": {**AR, "quant_method": "autoround"},
    "capitals": {**AR, "quant_method": "AutoRound"},
    "owner": {**AR, "quant_method": "intel/auto-round"},
    "no-bits": {k: v for k, v in AR.items() if k != "bits"},
    "text-bits": {**AR, "bits": "4"},
    "text-group": {**AR, "group_size": "128"},
    "16-bits": {**AR, "bits": 16},
    "nv-fp": {**AR, "data_type": "nv_fp"},
    "fp": {**AR, "data_type": "fp", "bits": 8},
    "awq-packing": {**AR, "packing_format": "auto_round:auto_awq"},
    "odd-packing": {**AR, "packing_format": "auto_gptq"},
    "mxfp8": MX,
    "mxfp4": {**MX, "bits": 4},
    "mxfp4-group": {**MX, "bits": 4, "group_size": 16},
    "fp8": MO,
    "fp8-old": OLD,
    "fp8-channel": {**MO, "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"},
    "nvfp4": {**MO, "quant_algo": "NVFP4"},
    "nvfp4-16": {**MO, "quant_algo": "W4A16_NVFP4"},
    "blocks": {**MO, "quant_algo": "FP8_PB_WO"},
    "modelopt-mxfp8": {**MO, "quant_algo": "MXFP8"},
    "mixed": {**MO, "quant_algo": "MIXED_PRECISION", "quantized_layers": LAYERS},
    "mixed-empty": {**MO, "quant_algo": "MIXED_PRECISION"},
    "nested": {"quant_method": "modelopt", "quantization": {"quant_algo": "FP8"}},
    "unknown-algo": {**MO, "quant_algo": "INT4_AWQ"},
    "method-fp4": {**MO, "quant_method": "modelopt_fp4", "quant_algo": "NVFP4"},
    "compressed": {"quant_method": "compressed-tensors", "format": "float-quantized",
                   "config_groups": {}, "ignore": []},
    "plain-fp8": {"quant_method": "fp8", "activation_scheme": "dynamic"},
    "plain-fp8-more": {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3"},
    "int8": {"quant_method": "int8"},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128},
    "bnb": {"quant_method": "bitsandbytes", "load_in_4bit": True},
    "magic": {"quant_method": "magic"},
}  # fmt: skip
EXTRA = {**AR, "block_name_to_quantize": "transformer_blocks,single_transformer_blocks",
         "extra_config": {"proj_out": {"bits": 16}, ".*img_mod.*": {"bits": 16},
                          "transformer_blocks.1.attn.to_q": {"bits": 16},
                          ".*attn.to_k.*": {"bits": 8},
                          "transformer_blocks.0.img_mlp.net.2": {"bits": 8}}}  # fmt: skip
IGNORE = ["proj_out", "norm_out*", "transformer_blocks.0.img_mlp", "*txt_mlp*", "attn.to_q"]
NAMED = {**MO, "quant_algo": "MIXED_PRECISION", "ignore": ["transformer_blocks.1.*"],
         "quantized_layers": {
             **{f"transformer_blocks.0.attn.{p}": {"quant_algo": "fp8"}
                for p in ("to_q", "to_k", "to_v")},
             "transformer_blocks.0.img_mlp.net.2": {"quant_algo": "NVFP4"},
             "blocks.0.attn1.to_out.0": {"quant_algo": "NVFP4"},
             "blocks.0.ffn.net.0.proj": {"quant_algo": "NVFP4"}}}  # fmt: skip
ASSIGNMENTS = {
    "extra": EXTRA,
    "ignore": {**MO, "ignore": IGNORE},
    "ignore-old": {**OLD, "ignore": IGNORE},
    "named": NAMED,
    "mxfp8": MX,
}
NAMES = [
    *(f"transformer_blocks.{n}.{part}" for n in (0, 1) for part in (
        "attn.to_qkv", "attn.to_out.0", "img_mlp.net.2", "txt_mlp.net.0.proj", "img_mod.1",
    )),
    "single_transformer_blocks.0.proj_out", "blocks.0.attn1.to_out", "blocks.0.ffn.net_0.proj",
    "blocks.0.ffn.net_2",
]  # fmt: skip
ASK = """
import json, sys
from vllm_omni.quantization import factory

asked = json.load(sys.stdin)

def build(config, wan):
    try:
        read = factory.resolve_quant_config_from_disk if wan else None
        return read(None, config) if wan else factory.build_quant_config(config)
    except Exception as error:
        return error

def scheme(config, name):
    if config.get_name() == "inc":
        if config.data_type == "mx_fp" and config.weight_bits == 8:
            return "MXFP8"
        found = config.config_parser.resolve(object(), name)
        return f"W{found.bits}A16" if found.quantized else "BF16"
    if config.is_layer_excluded(name):
        return "BF16"
    if config.get_name() == "modelopt_mixed":
        return config._resolve_quant_algo(name) or "BF16"
    return config.quant_method

def answers():
    accepted = {}
    for key, config in asked["configs"].items():
        for wan in (False, True):
            built = build(config, wan)
            refused = isinstance(built, Exception)
            accepted[f"{key} {wan}"] = "" if refused else built.get_name()
    layers = {}
    for key, config in asked["assignments"].items():
        built = build(config, False)
        layers[key] = {name: scheme(built, name) for name in asked["names"]}
    return {"accepted": accepted, "layers": layers}

stock = answers()
from workbench.serve import plugin
plugin.register()
print(json.dumps({"stock": stock, "plugin": answers()}))
"""
REPAIRED = {"stock": (), "plugin": tuple(REPAIRS)}


@pytest.fixture(scope="module")
def engine() -> dict[str, Any]:
    asked = {"configs": CONFIGS, "assignments": ASSIGNMENTS, "names": NAMES}
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind", REPAIRED)
@pytest.mark.parametrize("name", CONFIGS)
def test_it_takes_what_the_linter_says_it_takes(
    name: str, kind: str, engine: dict[str, Any]
) -> None:
    for family, wan in (("qwen-image", False), ("wan", True)):
        foretold = accepts(CONFIGS[name], family, REPAIRED[kind])
        assert foretold.method == engine[kind]["accepted"][f"{name} {wan}"], foretold


def members(layer: str) -> set[str]:
    """Every name of the linears of the file that a layer of these families is loaded from."""
    family = "wan" if layer.startswith("blocks.") else "qwen-image"
    preset = preset_of(family)
    known = [f"{layer.rpartition('.')[0]}.{part}" for part in ("to_q", "to_k", "to_v")]
    if family == "wan":
        known += ["blocks.0.attn1.to_out.0", "blocks.0.ffn.net.0.proj", "blocks.0.ffn.net.2"]
    found = set(file_names(preset, layer, known))
    assert all(runtime_name(preset, name) == layer for name in found)
    return found


@pytest.mark.parametrize("kind", REPAIRED)
@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_it_gives_each_layer_the_scheme_that_the_linter_says(
    name: str, kind: str, engine: dict[str, Any]
) -> None:
    config = ASSIGNMENTS[name]
    method = canonical(config["quant_method"])
    foretold = {
        layer: assigned(method, config, layer, members(layer), REPAIRED[kind])[0] for layer in NAMES
    }
    assert foretold == engine[kind]["layers"][name]
