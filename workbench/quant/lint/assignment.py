"""Which scheme the engine gives a layer by its quantization config alone.

Restates, name matching included, of vllm 0.30.0 below ``model_executor/layers/quantization``:
``inc/config_parser.py`` and ``inc/inc.py`` (AutoRound), ``modelopt.py`` (ModelOpt).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatch
from typing import Any

from workbench.quant.lint.methods import (
    AUTOROUND,
    MODELOPT,
    algorithm,
    ignored,
    inner,
    mapping,
    texts,
)
from workbench.schemes import BF16
from workbench.zoo.repairs import FUSED_NAMES, WHOLE_NAMES

Config = Mapping[str, Any]
_REGEX = set("*+?^$()[]{}|\\")
_MODELOPT = {"W4A16_NVFP4": "NVFP4"}  # the same tensors as NVFP4


def assigned(
    method: str,
    config: Config,
    layer: str,
    members: Collection[str] = (),
    repaired: Collection[str] = (),
) -> tuple[str, str]:
    """Scheme of a layer, and the entry of the config that decided, if one did.

    Args:
        method: Canonical name.
        config: The quantization config.
        layer: Name by which the engine asks for it, e.g. ``blocks.0.attn1.to_qkv``.
        members: Every name of the linears of the file that it is loaded from.
        repaired: Names of the repairs in force.
    """
    if method == AUTOROUND:
        return _autoround(config, layer)
    if method == MODELOPT:
        return _modelopt(config, layer, members, repaired)
    return BF16, ""


def _autoround(config: Config, layer: str) -> tuple[str, str]:
    floating = "mx_fp" in str(config.get("data_type") or "int")
    default = integer(config.get("bits", config.get("weight_bits"))) or 16
    if floating and default == 8:
        return "MXFP8", ""  # vllm_omni/quantization/inc_config.py:95 asks nobody
    entry, key = _entry(config, layer)
    bits = integer(entry.get("bits", default if _in_blocks(config, layer, key) else 16))
    if bits is None or bits >= 16:
        return BF16, key
    return (f"MXFP{bits}" if floating else f"W{bits}A16"), key


def _entry(config: Config, layer: str) -> tuple[Config, str]:
    """The entry of extra_config that means a layer: by name, by ending, or by expression."""
    extra = mapping(config.get("extra_config"))
    key = next((name for name in (layer, f"model.{layer}") if name in extra), "")
    key = key or next((key for key in extra if layer.endswith(f".{key}")), "")
    key = key or next((key for key in extra if set(key) & _REGEX and _searches(key, layer)), "")
    return mapping(extra.get(key)), key


def _in_blocks(config: Config, layer: str, key: str) -> bool:
    blocks = config.get("block_name_to_quantize", config.get("to_quant_block_names"))
    named = bool(key) and not set(key) & _REGEX
    return named or not blocks or layer.startswith(tuple(texts(blocks)))


def _searches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return False


def _modelopt(
    config: Config, layer: str, members: Collection[str], repaired: Collection[str]
) -> tuple[str, str]:
    whole = WHOLE_NAMES in repaired and whole_names(config)
    if key := excluded(config, layer, members if whole else None):
        return BF16, key
    found = algorithm(config)
    if found != "MIXED_PRECISION":
        return _MODELOPT.get(found, found), ""
    layers = mapping(inner(config).get("quantized_layers"))
    for name in (layer, *(members if FUSED_NAMES in repaired else ())):
        if name in layers:
            return _layer_algorithm(layers[name]), name
    below = next((name for name in layers if name.startswith(f"{layer}.")), "")
    return (_layer_algorithm(layers[below]), below) if below else (BF16, "")


def excluded(config: Config, layer: str, members: Collection[str] | None = None) -> str:
    """The entry of ``ignore`` that takes a layer out, or nothing.

    Args:
        config: The quantization config.
        layer: Name by which the engine asks for it.
        members: Its other names, for entries read as whole names or patterns; None reads them as
            stock vLLM does, as any part of the layer's name or as patterns.
    """
    entries = ignored(config)
    if members is None:
        return next((entry for entry in entries if entry in layer or fnmatch(layer, entry)), "")
    names = (layer, *members)
    return next((e for e in entries if any(_means(e, name) for name in names)), "")


def _means(entry: str, name: str) -> bool:
    return fnmatch(name, entry) or name.startswith(f"{entry}.")


def whole_names(config: Config) -> bool:
    """Whether the ModelOpt that wrote it, 0.39 or later, lists whole names in ``ignore``."""
    version = str(mapping(config.get("producer")).get("version", ""))
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2]) >= (0, 39)


def _layer_algorithm(entry: Any) -> str:
    found = str(entry.get("quant_algo") if isinstance(entry, Mapping) else entry).upper()
    return _MODELOPT.get(found, found)


def integer(value: Any) -> int | None:
    """A whole number, also one written as text; None for anything else."""
    if isinstance(value, str) and value.strip().isdigit():
        return int(value)
    return value if type(value) is int else None
