"""Which scheme a layer gets, from entries as ModelOpt writes them; no weights."""

from typing import Any

import pytest
import torch

from workbench.torchvision_ops import define_missing

define_missing()

from vllm.model_executor.layers.quantization.modelopt import (  # noqa: E402
    ModelOptFp8Config,
    ModelOptMixedPrecisionConfig,
)
from vllm_omni.quantization import factory  # noqa: E402

from workbench.serve import plugin  # noqa: E402

FLUX, QWEN, WAN = "single_transformer_blocks.0.", "transformer_blocks.0.", "blocks.0."


@pytest.fixture(autouse=True)
def registered() -> None:
    plugin.register()


def entry(algorithm: str, version: str = "0.47.0", **more: Any) -> dict[str, Any]:
    producer = {"name": "modelopt", "version": version}
    return {"quant_method": "modelopt", "quant_algo": algorithm, "producer": producer, **more}


def test_an_entry_of_ignore_is_a_whole_name() -> None:
    config = factory.build_quant_config(entry("FP8", ignore=["proj_out", "norm_out*"]))
    assert config.is_layer_excluded("proj_out")
    assert config.is_layer_excluded("norm_out.linear")
    assert not config.is_layer_excluded(f"{FLUX}proj_out")


def test_stock_vllm_takes_it_for_any_part_of_a_name() -> None:
    stock = ModelOptFp8Config.from_config(entry("FP8", ignore=["proj_out"]))
    assert stock.is_layer_excluded(f"{FLUX}proj_out")


def test_entries_before_0_39_keep_the_meaning_they_had() -> None:
    for old in (entry("FP8", "0.33.1", ignore=["proj_out"]), entry("FP8", "", ignore=["proj_out"])):
        assert factory.build_quant_config(old).is_layer_excluded(f"{FLUX}proj_out")


@pytest.mark.parametrize("name", ["ffn.net.2", "attn1.to_out.0", "attn1"])
def test_names_of_the_file_mean_the_engines_layer(name: str) -> None:
    runtime = {"ffn.net.2": "ffn.net_2", "attn1.to_out.0": "attn1.to_out", "attn1": "attn1.to_qkv"}
    config = factory.build_quant_config(entry("FP8", ignore=[WAN + name]))
    assert config.is_layer_excluded(WAN + runtime[name])
    assert not config.is_layer_excluded(f"{WAN}attn2.to_q")


def test_a_fused_layer_is_kept_if_all_of_it_is() -> None:
    names = [f"{QWEN}attn.to_{part}" for part in "qkv"]
    config = factory.build_quant_config(entry("FP8", ignore=names))
    assert config.is_layer_excluded(f"{QWEN}attn.to_qkv")
    config = factory.build_quant_config(entry("FP8", ignore=names[:1]))
    with pytest.raises(ValueError, match=r"ignores .*to_q, but the engine fuses it with .*to_k"):
        config.is_layer_excluded(f"{QWEN}attn.to_qkv")


def mixed(**schemes: str) -> dict[str, Any]:
    layers = {f"{QWEN}attn.{name}": {"quant_algo": scheme} for name, scheme in schemes.items()}
    return entry("MIXED_PRECISION", ignore=[], quantized_layers=layers)


def test_a_fused_layer_has_the_scheme_of_its_members() -> None:
    given = mixed(to_q="NVFP4", to_k="NVFP4", to_v="NVFP4", to_add_out="FP8")
    stock = ModelOptMixedPrecisionConfig.from_config(given)
    assert stock._resolve_quant_algo(f"{QWEN}attn.to_qkv") is None
    config = factory.build_quant_config(given)
    assert config._resolve_quant_algo(f"{QWEN}attn.to_qkv") == "NVFP4"
    assert config._resolve_quant_algo(f"{QWEN}attn.to_add_out") == "FP8"
    assert config._resolve_quant_algo(f"{QWEN}attn.add_kv_proj") is None


def test_members_of_two_schemes_are_refused_by_name() -> None:
    config = factory.build_quant_config(mixed(to_q="FP8", to_k="NVFP4", to_v="FP8"))
    with pytest.raises(ValueError, match=r"to_k \(NVFP4\), .*to_q \(FP8\)"):
        config._resolve_quant_algo(f"{QWEN}attn.to_qkv")
    config = factory.build_quant_config(mixed(to_q="FP8", to_k="FP8"))
    with pytest.raises(ValueError, match=r"to_v \(16 bit\)"):
        config._resolve_quant_algo(f"{QWEN}attn.to_qkv")


def test_layers_that_wan_renames_are_found() -> None:
    layers = {
        f"{WAN}{name}": {"quant_algo": "FP8"}
        for name in ("ffn.net.0.proj", "ffn.net.2", "attn1.to_out.0")
    }
    given = entry("MIXED_PRECISION", ignore=[], quantized_layers=layers)
    config = factory.build_quant_config(given)
    for name in ("ffn.net_0.proj", "ffn.net_2", "attn1.to_out"):
        assert config._resolve_quant_algo(WAN + name) == "FP8"
    assert config._resolve_quant_algo(f"{WAN}attn1.to_qkv") is None


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [
        ("FP8", "modelopt"),
        ("FP8_PER_CHANNEL_PER_TOKEN", "modelopt"),
        ("NVFP4", "modelopt_fp4"),
        ("MXFP8", "modelopt_mxfp8"),
    ],
)
def test_an_experts_own_entry_decides(algorithm: str, name: str) -> None:
    """As Wan calls it, with the config of the other expert active or none."""
    for active in (None, factory.build_quant_config(entry("FP8", ignore=[]))):
        found = factory.resolve_quant_config_from_disk(active, entry(algorithm, ignore=[]))
        assert found.get_name() == name
    assert factory.resolve_quant_config_from_disk(None, None) is None


def test_another_method_asked_for_stays_a_contradiction() -> None:
    online = factory.build_quant_config("fp8")
    with pytest.raises(ValueError, match="declares quant_method='modelopt'"):
        factory.resolve_quant_config_from_disk(online, entry("NVFP4", ignore=[]))


def test_an_unknown_algorithm_is_named() -> None:
    with pytest.raises(ValueError, match=r"'W4A8_AWQ' is unknown to vLLM; it reads FP8"):
        factory.build_quant_config(entry("W4A8_AWQ", ignore=[]))


def test_compressed_tensors_is_read_by_vllm() -> None:
    group = {"weights": {"num_bits": 4, "type": "int", "group_size": 128, "strategy": "group"}}
    given = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], **group}},
        "ignore": ["proj_out"],
    }
    assert factory.build_quant_config(given).get_name() == "compressed-tensors"


def test_nothing_changes_for_what_needs_no_repair() -> None:
    assert factory.build_quant_config(None) is None
    assert factory.build_quant_config("modelopt_fp4").get_name() == "modelopt_fp4"
    assert factory.build_quant_config("fp8").is_checkpoint_fp8_serialized is False
    before = dict(factory._OVERRIDES)
    plugin.register()
    assert set(factory._OVERRIDES) == set(before)
    assert torch.get_default_dtype() == torch.float32
