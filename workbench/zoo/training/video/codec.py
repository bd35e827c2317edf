"""A trained clip VAE as the transformer meets it: clips to unit-sized latents and back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from workbench.zoo.training.artefacts import load_weights
from workbench.zoo.training.assembly import vae_config
from workbench.zoo.training.codec import on_device
from workbench.zoo.training.optim import mixed_precision
from workbench.zoo.training.video.recipe import VideoArchitecture
from workbench.zoo.training.video.vae_net import ClipVAE

CHUNK = 32  # clips encoded or decoded at once when nothing is trained


@dataclass(frozen=True)
class ClipCodec:
    """A trained VAE with the per-channel statistics that make its latents unit-sized."""

    vae: ClipVAE
    mean: Tensor  # [1, z, 1, 1, 1]
    std: Tensor  # [1, z, 1, 1, 1]

    @torch.no_grad()
    def encode(self, clips: Tensor) -> Tensor:
        """Clips [B, 3, 4 n + 1, H, W] in [-1, 1] to normalised latents [B, z, n + 1, H/8, W/8]."""
        return (latents_of(self.vae, clips) - self.mean) / self.std

    @torch.no_grad()
    def decode(self, latents: Tensor) -> Tensor:
        """The inverse: clips clamped to [-1, 1]."""
        with mixed_precision(latents.device):
            return self.vae.decode(latents.float() * self.std + self.mean).float().clamp(-1, 1)

    @classmethod
    def load(cls, weights: Path, shape: VideoArchitecture, device: torch.device) -> ClipCodec:
        """Read `vae.safetensors` and the `vae_config.json` beside it."""
        vae = ClipVAE(shape)
        vae.load_state_dict(load_weights(weights))
        config = vae_config(weights)
        mean, std = (
            torch.tensor(config[name], device=device).view(1, -1, 1, 1, 1)
            for name in ("latents_mean", "latents_std")
        )
        return cls(on_device(vae, device).requires_grad_(False), mean, std)


@torch.no_grad()
def latents_of(vae: ClipVAE, clips: Tensor) -> Tensor:
    """Mean latents [B, z, n + 1, H/8, W/8] of clips [B, 3, 4 n + 1, H, W], fp32."""
    with mixed_precision(clips.device):
        return vae.encode(clips)[0].float()


def psnr(codec: ClipCodec, clips: Tensor) -> Tensor:
    """Reconstruction PSNR in dB (data range 2) of each frame of [B, 3, T, H, W]: [B, T]."""
    error = (codec.decode(codec.encode(clips)) - clips).square().mean((1, 3, 4))
    return 10 * torch.log10(4 / error)
