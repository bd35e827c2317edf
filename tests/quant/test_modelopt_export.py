"""The quantization entry against the classes of vLLM and vLLM-Omni that read it."""

from typing import Any

import pytest

from workbench.errors import QuantizationFailed
from workbench.quant.modelopt_export import quantization_config
from workbench.zoo.names import runtime_name
from workbench.zoo.preset import Preset
from workbench.zoo.presets import preset_of

QWEN = [
    f"transformer_blocks.{block}.{name}"
    for block in (0, 1, 10)
    for name in ("attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0", "img_mlp.net.2")
]
FLUX = [
    *(f"transformer_blocks.0.attn.{part}" for part in ("to_q", "to_k", "to_v", "to_out.0")),
    *(f"single_transformer_blocks.{n}.{p}" for n in (0, 1) for p in ("proj_mlp", "proj_out")),
    "single_transformer_blocks.0.norm.linear",
    "proj_out",
]
WAN = [
    f"blocks.{block}.{name}"
    for block in (0, 1)
    for name in (
        *("attn1.to_q", "attn1.to_k", "attn1.to_v", "attn1.to_out.0", "attn2.to_q"),
        *("ffn.net.0.proj", "ffn.net.2"),
    )
]


def read(entry: dict[str, Any]) -> Any:
    """What vLLM-Omni makes of an entry of config.json."""
    from vllm_omni.quantization import build_quant_config

    return build_quant_config(entry)


def hidden(entry: dict[str, Any], preset: Preset, names: list[str]) -> set[str]:
    """Linears whose layer the engine leaves in 16 bit, by its own rule."""
    built = read(entry)
    return {name for name in names if built.is_layer_excluded(runtime_name(preset, name))}


@pytest.mark.parametrize(
    ("scheme", "method"),
    [("FP8", "modelopt"), ("FP8_PER_CHANNEL_PER_TOKEN", "modelopt"), ("NVFP4", "modelopt_fp4")],
)
def test_the_engine_recognizes_each_scheme(scheme: str, method: str) -> None:
    preset = preset_of("qwen-image")
    built = read(quantization_config(preset, dict.fromkeys(QWEN, scheme), QWEN))
    assert built.get_name() == method
    assert built.quant_method == scheme


@pytest.mark.parametrize(("family", "names"), [("qwen-image", QWEN), ("wan", WAN)])
def test_only_what_is_kept_is_excluded(family: str, names: list[str]) -> None:
    preset = preset_of(family)
    kept = {name for name in names if ".1." in name and "to_out" in name}
    layers = {name: "FP8" for name in names if name not in kept}
    assert hidden(quantization_config(preset, layers, names), preset, names) == kept


def test_flux_does_not_hide_proj_out_of_its_blocks() -> None:
    preset = preset_of("flux")
    quantized = [n for n in FLUX if n.startswith("single") and "norm" not in n]
    entry = quantization_config(preset, dict.fromkeys(quantized, "FP8"), FLUX)
    assert entry["ignore"] == [], "the engine keeps the rest by itself"
    assert not hidden(entry, preset, quantized)


def test_an_entry_that_would_hide_a_quantized_layer_is_refused() -> None:
    """As part of a name, blocks.0.ffn.net_2 is in blocks.0.ffn.net_20 as well."""
    preset = preset_of("wan")
    layers = {"blocks.0.ffn.net_20": "FP8", "blocks.1.attn1.to_q": "FP8"}
    with pytest.raises(QuantizationFailed, match=r"net_2 in 16 bit would also unpack .*net_20"):
        quantization_config(preset, layers, [*layers, "blocks.0.ffn.net.2"])


def test_mixed_names_every_layer_as_the_engine_looks_it_up() -> None:
    preset = preset_of("wan")
    layers = {
        n: "NVFP4" if "ffn" in n else "FP8" for n in WAN if not n.startswith("blocks.1.attn2")
    }
    entry = quantization_config(preset, layers, WAN)
    built = read(entry)
    assert built.get_name() == "modelopt_mixed"
    found = {n: built._resolve_quant_algo(runtime_name(preset, n)) for n in WAN}
    assert {name: algo for name, algo in found.items() if algo} == layers
    assert built.nvfp4_config.group_size == 16
    names = entry["quantized_layers"]
    assert {"blocks.0.attn1.to_qkv", "blocks.0.attn1.to_q", "blocks.0.ffn.net_0.proj"} <= set(names)


def test_groups_are_told() -> None:
    preset = preset_of("qwen-image")
    for scheme, group in {"NVFP4": 16, "MXFP8": 32}.items():
        entry = quantization_config(preset, dict.fromkeys(QWEN, scheme), QWEN)
        assert entry["group_size"] == group
    assert "group_size" not in quantization_config(preset, dict.fromkeys(QWEN, "FP8"), QWEN)
