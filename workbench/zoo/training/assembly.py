"""Trained weights put into the real classes, and those into the folder of a pipeline."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from workbench.zoo.training.artefacts import load_weights


def vae_config(vae: Path) -> dict[str, Any]:
    """What the vae command wrote beside its weights: the real class's arguments."""
    return json.loads(vae.with_name("vae_config.json").read_text())


def fill(
    parts: Mapping[str, nn.Module], weights: Path, vae: Path, *, untrained: Callable[[str], bool]
) -> None:
    """Load what was trained.

    Args:
        parts: ``text_encoder``, ``transformer`` and ``vae``, of the real classes.
        weights: Folder of the dit command.
        vae: `vae.safetensors`.
        untrained: Whether the text encoder has a weight of this name that no training fills: tied
            to another, or never used.

    Raises:
        ValueError: weights of a text encoder of another shape of network.
    """
    encoder, file = parts["text_encoder"], weights / "text_encoder.safetensors"
    missing, unexpected = encoder.load_state_dict(load_weights(file), strict=False)
    strangers = [name for name in missing if not untrained(name)]
    if strangers or unexpected:
        raise ValueError(
            f"{file} lacks {strangers} and has unknown {unexpected}; "
            "train it again with this version."
        )
    encoder.tie_weights()
    parts["transformer"].load_state_dict(load_weights(weights / "transformer.safetensors"))
    parts["vae"].load_state_dict(load_weights(vae))


def save(parts: Mapping[str, Any], folder: Path) -> None:
    """Write each part in bf16 into its folder of the pipeline."""
    for name, part in parts.items():
        part.to(torch.bfloat16).save_pretrained(folder / name)


def write_checksums(folder: Path) -> list[str]:
    """Hash every file of a folder into `SHA256SUMS`, in the format of `sha256sum`."""
    listing = folder / "SHA256SUMS"
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != listing)
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}"
        for path in files
    ]
    listing.write_text("\n".join(lines) + "\n")
    return lines
