"""Heads and VAE of a pipeline, from the configs of its components."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.errors import ModelNotFound

_PATCH = 2  # latents along a side, where a config says nothing
ENCODER_HEADS = ("num_heads", "num_attention_heads")  # T5's name, and everyone's


@dataclass(frozen=True, slots=True, kw_only=True)
class Vae:
    """Of the VAE's config.json."""

    spatial: int = 8
    """Pixels to a latent, along height and width."""
    temporal: int = 4
    """Frames to a latent frame; of video models."""
    widest: int = 256
    """Channels that the last stage of its decoder takes, at full resolution."""
    patch: int = 1
    """Pixels to a side that the decoder writes at once, below full resolution."""
    causal: bool = False
    """Whether its convolutions reach back in time, and keep what they were given for that."""
    residual: bool = False
    """Whether each stage of its decoder has a shortcut around it, at the size of its output."""


def heads_of(component: Path, keys: tuple[str, ...]) -> tuple[int, int | None]:
    """Heads of the queries, and of keys and values where they differ.

    Args:
        component: Folder of a transformer or a text encoder.
        keys: Names in its config.json.

    Raises:
        ModelNotFound: no config.json, or none of the names in it.
    """
    config = _config(component)
    config = config.get("text_config", config)
    found = [config[key] for key in keys if type(config.get(key)) is int]
    if not found:
        raise ModelNotFound(
            f"{component}/config.json has none of {', '.join(keys)}; download the model again"
        )
    named = config.get("num_key_value_heads")
    return found[0], found[1] if len(found) > 1 else named


def vae_of(folder: Path) -> Vae:
    """What the VAE's config.json says; the usual numbers where there is none."""
    if not (folder / "config.json").is_file():
        return Vae()
    config = _config(folder)
    steps = config.get("temperal_downsample")  # diffusers' spelling
    levels = config.get("block_out_channels")
    spatial = 2 ** (len(steps) if steps else len(levels or [0] * 4) - 1)
    temporal = 2 ** sum(map(bool, steps)) if steps else 1
    base = config.get("decoder_base_dim") or config.get("base_dim")
    widest = 2 * base if base else (levels or [256])[:2][-1]
    return Vae(
        spatial=config.get("scale_factor_spatial") or spatial,
        temporal=config.get("scale_factor_temporal") or temporal,
        widest=widest,
        patch=config.get("patch_size") or 1,
        causal=bool(base),
        residual=bool(config.get("is_residual")),
    )


def pixels_of_a_patch(folder: Path) -> int:
    """Pixels along a side of a patch: what height and width of a video model are multiples of."""
    config = folder / "transformer"
    patch = _config(config).get("patch_size") if (config / "config.json").is_file() else None
    return vae_of(folder / "vae").spatial * (patch[-1] if isinstance(patch, list) else _PATCH)


def _config(component: Path) -> dict[str, Any]:
    try:
        return json.loads((component / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise ModelNotFound(
            f"{component}/config.json cannot be read ({error}); download the model again"
        ) from None
