"""A trained VAE as the transformer meets it: pictures to packed, unit-sized latents and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from workbench.zoo.training.artefacts import load_weights
from workbench.zoo.training.assembly import vae_config
from workbench.zoo.training.optim import mixed_precision
from workbench.zoo.training.recipe import Architecture
from workbench.zoo.training.vae_net import PictureVAE, deflate

if TYPE_CHECKING:
    from workbench.zoo.training.video.codec import ClipCodec
    from workbench.zoo.training.video.recipe import VideoArchitecture

V = TypeVar("V", bound=nn.Module)
CHUNK = 256  # pictures encoded at once when nothing is trained


@dataclass(frozen=True)
class Codec:
    """A trained VAE with the per-channel statistics that make its latents unit-sized.

    Packed latents are [B, 256, 64]: one token per 2x2 latents, ordered as diffusers packs them.
    """

    vae: PictureVAE
    mean: Tensor  # [1, z, 1, 1]
    std: Tensor  # [1, z, 1, 1]

    @torch.no_grad()
    def encode(self, pictures: Tensor) -> Tensor:
        """Pictures [B, 3, H, W] in [-1, 1] to packed, normalised latents, fp32."""
        latents = (latents_of(self.vae, pictures) - self.mean) / self.std
        return F.pixel_unshuffle(latents, 2).flatten(2).transpose(1, 2)

    @torch.no_grad()
    def decode(self, packed: Tensor) -> Tensor:
        """The inverse: pictures [B, 3, H, W] clamped to [-1, 1]."""
        side = math.isqrt(packed.shape[1])
        latents = F.pixel_shuffle(packed.float().transpose(1, 2).unflatten(2, (side, side)), 2)
        with mixed_precision(packed.device):
            return self.vae.decode(latents * self.std + self.mean).float().clamp(-1, 1)

    @classmethod
    def load(cls, weights: Path, shape: Architecture, device: torch.device) -> Codec:
        """Read `vae.safetensors` and the `vae_config.json` beside it."""
        vae = PictureVAE(shape)
        vae.load_state_dict(deflate(load_weights(weights)))
        config = vae_config(weights)
        mean, std = (
            torch.tensor(config[name], device=device) for name in ("latents_mean", "latents_std")
        )
        return cls(
            on_device(vae, device).requires_grad_(False),
            mean.view(1, -1, 1, 1),
            std.view(1, -1, 1, 1),
        )


def on_device(vae: V, device: torch.device) -> V:
    """Move a VAE, on a GPU with 2-D kernels in channels-last order, as all its tensors are."""
    if device.type == "cuda":
        for module in vae.modules():
            if isinstance(module, nn.Conv2d):
                module.to(memory_format=torch.channels_last)
    return vae.to(device)


@torch.no_grad()
def latents_of(vae: PictureVAE, pictures: Tensor) -> Tensor:
    """Mean latents [B, z, H/8, W/8] of pictures, fp32."""
    with mixed_precision(pictures.device):
        return vae.encode(channels_last(pictures))[0].float()


def channels_last(pictures: Tensor) -> Tensor:
    """Reorder in memory on a GPU; nothing on a CPU."""
    return pictures.contiguous(memory_format=torch.channels_last) if pictures.is_cuda else pictures


def psnr(codec: Codec, pictures: Tensor) -> Tensor:
    """Reconstruction PSNR of each picture in dB (data range 2), [B]."""
    error = (codec.decode(codec.encode(pictures)) - pictures).square().mean((1, 2, 3))
    return 10 * torch.log10(4 / error)


def config(shape: Architecture | VideoArchitecture, codec: Codec | ClipCodec) -> dict[str, Any]:
    """The configuration of diffusers' `AutoencoderKLQwenImage`, and of its `AutoencoderKLWan`."""
    return {
        "base_dim": shape.vae_width, "z_dim": shape.latent_channels, "dropout": 0.0,
        "dim_mult": list(shape.vae_mults), "num_res_blocks": 1, "attn_scales": [],
        "temperal_downsample": list(shape.vae_temporal),
        "latents_mean": codec.mean.flatten().tolist(), "latents_std": codec.std.flatten().tolist(),
    }  # fmt: skip
