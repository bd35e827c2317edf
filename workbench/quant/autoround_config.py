"""The names that vLLM-Omni looks up when it asks whether a layer is packed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from workbench import store
from workbench.errors import QuantizationFailed
from workbench.zoo.names import runtime_name
from workbench.zoo.presets import Preset


def mend_config(file: Path, preset: Preset, kept: tuple[str, ...]) -> None:
    """Let a config.json that AutoRound wrote name the kept layers as vLLM-Omni looks them up."""
    try:
        config = json.loads(file.read_text())
        config["quantization_config"]["extra_config"] = extra_config(preset, kept)
    except (OSError, KeyError, ValueError):
        raise QuantizationFailed(
            f"the quantizer wrote no quantization_config for the {file.parent.name}; see its log"
        ) from None
    store.write_json(file, config)


def extra_config(preset: Preset, kept: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Entries that make the loader build the kept layers in 16 bit.

    Args:
        preset: Says how the family's names differ at runtime.
        kept: Linears in 16 bit, by diffusers' names.

    Returns:
        Name to ``{"bits": 16, "data_type": "float"}``: diffusers' name, and vLLM-Omni's where it
        differs. Exact names only: vLLM matches a short one by its ending, so a kept ``proj_out``
        would also unpack ``single_transformer_blocks.0.proj_out``.
    """
    names = dict.fromkeys(name for own in kept for name in (own, runtime_name(preset, own)))
    return {name: {"bits": 16, "data_type": "float"} for name in names}
