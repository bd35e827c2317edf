"""The quantization_config of an AutoRound checkpoint, in the names that vLLM looks up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from workbench import store
from workbench.errors import QuantizationFailed
from workbench.schemes import INTEGER
from workbench.zoo.names import module_name, runtime_name
from workbench.zoo.presets import Preset

KEPT = {"bits": 16, "data_type": "float"}
BITS = {"W4A16": 4, "W8A16": 8, "MXFP8": 8, "MXFP4": 4}
_OF_THE_HOST = ("amp",)
"""What AutoRound notes about the machine it ran on; vLLM reads none of it."""


def write_config(
    packed: Path,
    output: Path,
    *,
    preset: Preset,
    layers: Mapping[str, str],
    kept: Iterable[str],
    group_size: int,
) -> None:
    """Write a component's config.json with AutoRound's quantization_config, names mended.

    Args:
        packed: Component folder that AutoRound wrote.
        output: Component folder to write it to.
        preset: The family's.
        layers: The quantized linears and their schemes.
        kept: Linears of the blocks in 16 bit.
        group_size: Channels a scale of W4A16 and W8A16 spans.

    Raises:
        QuantizationFailed: AutoRound wrote no quantization_config.
    """
    try:
        config = json.loads((packed / "config.json").read_text())
        written = config["quantization_config"]
    except (OSError, KeyError, ValueError):
        raise QuantizationFailed(
            f"AutoRound wrote no quantization_config for the {packed.name}; see its log"
        ) from None
    for name in _OF_THE_HOST:
        written.pop(name, None)
    written["block_name_to_quantize"] = ",".join(preset.blocks)
    written["extra_config"] = extra_config(
        preset, layers, kept, bits=written["bits"], group_size=group_size
    )
    store.write_json(output / "config.json", config)


def extra_config(
    preset: Preset,
    layers: Mapping[str, str],
    kept: Iterable[str],
    *,
    bits: int,
    group_size: int = 128,
) -> dict[str, dict[str, Any]]:
    """Entries for every linear that differs from the default of the checkpoint.

    Args:
        preset: Says how the family's names differ at run time.
        layers: The quantized linears, by diffusers' names, and their schemes.
        kept: Linears of the blocks in 16 bit, by diffusers' names.
        bits: The default.
        group_size: Channels a scale of W4A16 and W8A16 spans.

    Returns:
        Name to settings: diffusers' name, and vLLM-Omni's where it differs. Full names only, as
        vLLM matches a key by the ending of a layer's name
        (vllm/.../quantization/inc/config_parser.py): a kept ``proj_out`` would also unpack
        ``single_transformer_blocks.0.proj_out``.
    """
    other = {name: scheme for name, scheme in layers.items() if BITS[scheme] != bits}
    entries = {name: entry(scheme, group_size) for name, scheme in other.items()}
    entries |= {name: dict(KEPT) for name in kept}
    return {
        spelled: dict(settings)
        for name, settings in sorted(entries.items())
        for spelled in dict.fromkeys((name, runtime_name(preset, name), module_name(preset, name)))
    }


def entry(scheme: str, group_size: int) -> dict[str, Any]:
    """Settings of one linear, as AutoRound's ``layer_config`` and vLLM's parser both take them."""
    integer = scheme in INTEGER
    return {
        "bits": BITS[scheme],
        "group_size": group_size if integer else 32,
        "data_type": "int" if integer else "mx_fp",
        "sym": True,
    }
