"""Latents into pictures, by the model's own VAE in diffusers."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench import zoo
from workbench.errors import SpecError
from workbench.records import Checkpoint
from workbench.specs import ModelRef, Sampling
from workbench.torchvision_ops import define_missing
from workbench.zoo.families import family_of

if TYPE_CHECKING:
    import torch
    from PIL import Image


def decode(
    model: ModelRef | Checkpoint | str, latents: np.ndarray, sampling: Sampling | None = None
) -> list[Image.Image]:
    """Pictures of latents, by the model's own VAE in diffusers.

    Args:
        model: The model or checkpoint that the latents belong to.
        latents: float [n, ...] in the pipeline's layout, such as ``generation.trajectory.latents``;
            for a video the first frame of each is shown.
        sampling: Gives height and width in pixels; None takes the model's default.

    Raises:
        SpecError: latents that do not fit the size.
    """
    folder = model.path if isinstance(model, Checkpoint) else zoo.locate(_reference(model))
    given = sampling.model_dump(exclude_none=True) if sampling else {}
    full = Sampling(**{**zoo.default_sampling(folder), **given})
    vae = _vae(folder)
    return [_picture(vae, family_of(folder).name, one, full) for one in latents]


def _reference(model: ModelRef | str) -> ModelRef:
    return model if isinstance(model, ModelRef) else ModelRef(model)


@lru_cache(maxsize=1)
def _vae(folder: Path) -> Any:
    define_missing()
    from workbench import bf16  # on use, as it takes torch

    bf16.register()
    import diffusers
    import torch

    name = json.loads((folder / "model_index.json").read_text())["vae"][1]
    vae = getattr(diffusers, name).from_pretrained(folder / "vae", dtype=torch.bfloat16)
    return vae.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def _picture(vae: Any, family: str, latents: np.ndarray, sampling: Sampling) -> Image.Image:
    import torch
    from diffusers.image_processor import VaeImageProcessor

    try:
        unpacked = _UNPACK[family](vae, torch.from_numpy(latents), sampling).to(
            vae.device, vae.dtype
        )
    except RuntimeError as error:
        raise SpecError(
            f"latents of shape {latents.shape} do not belong to {sampling.height} x "
            f"{sampling.width} pixels ({error}); pass the sampling that they were drawn with"
        ) from None
    with torch.inference_mode():
        pixels = vae.decode(unpacked, return_dict=False)[0]
    frame = pixels if pixels.ndim == 4 else pixels[:, :, 0]
    return VaeImageProcessor().postprocess(frame.float(), output_type="pil")[0]


def _qwen_image(vae: Any, latents: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    from diffusers import QwenImagePipeline

    unpacked = QwenImagePipeline._unpack_latents(latents, sampling.height, sampling.width, 8)
    return _unnormalised(vae, unpacked)


def _flux(vae: Any, latents: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    from diffusers import FluxPipeline

    unpacked = FluxPipeline._unpack_latents(latents, sampling.height, sampling.width, 8)
    return unpacked / vae.config.scaling_factor + vae.config.shift_factor


def _wan(vae: Any, latents: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    return _unnormalised(vae, latents[:, :, :1])


def _unnormalised(vae: Any, latents: torch.Tensor) -> torch.Tensor:
    import torch

    shape = (1, -1, 1, 1, 1)
    return latents * torch.tensor(vae.config.latents_std).view(shape) + torch.tensor(
        vae.config.latents_mean
    ).view(shape)


_UNPACK = {"qwen-image": _qwen_image, "flux": _flux, "wan": _wan, "wan-i2v": _wan}
