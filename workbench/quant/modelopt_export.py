"""What vLLM-Omni 0.30.0 reads of ModelOpt layers: names, scales and the quantization entry.

What the engine's loader gets wrong for a family is mended here, and only here:

* Wan's scales are dropped unless the linears bear the engine's own names;
* a layer of a fused projection is looked up by the fused name, never by q, k and v;
* an entry of ``ignore`` matches any part of a name, so only what the engine would otherwise
  quantize is listed, by its whole name;
* linears that the engine runs in 16 bit are dequantized with a scale that it rounds to bfloat16;
* members of a fused projection are requantized to their largest scale, so they share one here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from workbench.errors import QuantizationFailed
from workbench.schemes import SCHEMES
from workbench.zoo.names import runtime_name, stored_name
from workbench.zoo.presets import MODELOPT, Preset, kept_reason

VERSION = "0.47.0"


def runs_in_16_bit(preset: Preset, name: str) -> bool:
    """Whether the engine has no quantized layer for a linear, and dequantizes it while loading."""
    return kept_reason(preset, name, MODELOPT) is not None


def quantization_config(
    preset: Preset, layers: Mapping[str, str], linears: Iterable[str]
) -> dict[str, Any]:
    """The entry of a component's config.json by which the engine finds each layer's scheme.

    Args:
        preset: The family's.
        layers: Linear -> scheme.
        linears: All linears of the component.

    Raises:
        QuantizationFailed: an entry of ``ignore`` would hide a quantized layer.
    """
    schemes = set(layers.values())
    entry = {"quant_method": "modelopt", "producer": {"name": "modelopt", "version": VERSION}}
    if len(schemes) > 1:
        found = {"quantized_layers": _by_layer(preset, layers), "ignore": []}
        return {**entry, "quant_algo": "MIXED_PRECISION", **found}
    (scheme,) = schemes
    groups = {"config_groups": {"group_0": _group(scheme)}}
    if block := SCHEMES[scheme].block:
        groups["group_size"] = block
    ignore = _ignored(preset, layers, linears)
    return {**entry, "quant_algo": scheme, **groups, "ignore": ignore}


def _by_layer(preset: Preset, layers: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Every name of each layer: in the 16-bit file, in this one, and as a fused layer."""
    found: dict[str, dict[str, Any]] = {}
    for name, scheme in layers.items():
        value: dict[str, Any] = {"quant_algo": scheme}
        if block := SCHEMES[scheme].block:
            value["group_size"] = block
        for one in (name, stored_name(preset, name), runtime_name(preset, name)):
            found[one] = value
    return found


def _ignored(preset: Preset, layers: Mapping[str, str], linears: Iterable[str]) -> list[str]:
    left = (name for name in linears if name not in layers and not runs_in_16_bit(preset, name))
    ignored = sorted({runtime_name(preset, name) for name in left})
    quantized = {runtime_name(preset, name) for name in layers if not runs_in_16_bit(preset, name)}
    for entry in ignored:
        hidden = [name for name in quantized if entry in name]
        if hidden:
            raise QuantizationFailed(
                f"keeping {entry} in 16 bit would also unpack {hidden[0]}: vLLM takes entries of "
                "ignore as parts of names; ignore both, or use scheme='MIXED' with layer_schemes"
            )
    return ignored


def _group(scheme: str) -> dict[str, Any]:
    """The schemes of weights and inputs in the words of ModelOpt's own export."""
    bits = 4 if scheme == "NVFP4" else 8
    weights: dict[str, Any] = {"dynamic": False, "num_bits": bits, "type": "float"}
    inputs = {**weights, "dynamic": scheme in ("FP8_PER_CHANNEL_PER_TOKEN", "MXFP8")}
    if block := SCHEMES[scheme].block:
        weights["group_size"] = inputs["group_size"] = block
    if scheme == "FP8_PER_CHANNEL_PER_TOKEN":
        weights["strategy"], inputs["strategy"] = "channel", "token"
    return {"input_activations": inputs, "weights": weights, "targets": ["Linear"]}
