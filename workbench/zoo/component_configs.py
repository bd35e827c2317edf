"""Heads and VAE of a pipeline, from the configs of its components."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.errors import ModelNotFound
from workbench.zoo.json_files import AGAIN, count_of, list_of, object_of, read_json

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
        ModelNotFound: no config.json, none of the names in it, or a number of heads that is none.
    """
    file = component / "config.json"
    config = read_json(file)
    config = object_of(file, config, "text_config") or config
    found = [heads for key in keys if (heads := count_of(file, config, key)) is not None]
    if not found:
        raise ModelNotFound(f"{file} has none of {', '.join(keys)}; {AGAIN}")
    named = count_of(file, config, "num_key_value_heads")
    return found[0], found[1] if len(found) > 1 else named


def vae_of(folder: Path) -> Vae:
    """What the VAE's config.json says; the usual numbers where there is none.

    Raises:
        ModelNotFound: a config.json that is broken, or numbers in it that are none.
    """
    file = folder / "config.json"
    if not file.is_file():
        return Vae()
    config = read_json(file)
    steps = list_of(file, config, "temperal_downsample", bool)  # diffusers' spelling
    levels = list_of(file, config, "block_out_channels", int)
    spatial = 2 ** (len(steps) if steps else len(levels or [0] * 4) - 1)
    temporal = 2 ** sum(map(bool, steps)) if steps else 1
    base = count_of(file, config, "decoder_base_dim") or count_of(file, config, "base_dim")
    patches = config.get("patch_size")  # FLUX.2 has a list here, of latents, not of pixels
    patch = None if isinstance(patches, list) else count_of(file, config, "patch_size")
    widest = 2 * base if base else (levels or [256])[:2][-1]
    return Vae(
        spatial=count_of(file, config, "scale_factor_spatial") or spatial,
        temporal=count_of(file, config, "scale_factor_temporal") or temporal,
        widest=widest,
        patch=patch or 1,
        causal=bool(base),
        residual=bool(config.get("is_residual")),
    )


def pixels_of_a_patch(folder: Path) -> int:
    """Pixels along a side of a patch: what height and width of a video model are multiples of.

    Raises:
        ModelNotFound: a config.json that is broken, or numbers in it that are none.
    """
    file = folder / "transformer" / "config.json"
    config = read_json(file) if file.is_file() else {}
    patch = list_of(file, config, "patch_size", int) if _listed(config) else None
    return vae_of(folder / "vae").spatial * (patch[-1] if patch else _PATCH)


def _listed(config: dict[str, Any]) -> bool:
    return isinstance(config.get("patch_size"), list)
