"""A twin of diffusers' `AutoencoderKLWan` that takes whole clips at once: the same names.

It starts from the picture VAE, whose keys and shapes are the same.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn

from workbench.zoo.training.artefacts import load_weights
from workbench.zoo.training.vae_blocks import Norm
from workbench.zoo.training.video.recipe import VideoArchitecture
from workbench.zoo.training.video.vae_blocks import (
    REACH,
    ClipMidBlock,
    ClipResample,
    ClipResidualBlock,
    causal,
)

PICTURE_VAE = (
    Path(__file__).parents[2] / "embedded/qwen-image/vae/diffusion_pytorch_model.safetensors"
)
FROZEN = ("conv2.bias", "conv_shortcut.bias", "resample.1.bias")
"""Biases whose gradients cost more than they give: zero in the picture VAE, and left so."""


class ClipHead(nn.Module):
    """`conv_in`, and norm, SiLU, `conv_out`: what encoder and decoder share."""

    def __init__(self, first: int, inner: int, outer: int, last: int) -> None:
        super().__init__()
        self.conv_in = nn.Conv3d(first, inner, REACH)
        self.norm_out = Norm(outer)
        self.conv_out = nn.Conv3d(outer, last, REACH)

    def finish(self, x: Tensor, frames: int) -> tuple[Tensor, int]:
        """[B * frames, outer, H, W] to [B * frames, last, H, W], and the frames."""
        return causal(self.norm_out.silu(x), frames, self.conv_out), frames


class ClipEncoder(ClipHead):
    """Frames [B T, 3, H, W] to moments [B (T + 3) / 4, 2 z, H/8, W/8]."""

    def __init__(self, shape: VideoArchitecture) -> None:
        widths = [shape.vae_width * m for m in (1, *shape.vae_mults)]
        super().__init__(3, widths[0], widths[-1], 2 * shape.latent_channels)
        blocks: list[nn.Module] = []
        for level, (inner, outer) in enumerate(pairwise(widths)):
            blocks.append(ClipResidualBlock(inner, outer))
            if level < len(shape.vae_temporal):
                blocks.append(ClipResample(outer, up=False, temporal=shape.vae_temporal[level]))
        self.down_blocks = nn.ModuleList(blocks)
        self.mid_block = ClipMidBlock(widths[-1])

    def forward(self, x: Tensor, frames: int) -> tuple[Tensor, int]:
        """See the class; the frames per clip go in and come out."""
        x = causal(x, frames, self.conv_in)
        for block in self.down_blocks:
            if isinstance(block, ClipResample):
                x, frames = block(x, frames)
            else:
                x = block(x, frames)
        return self.finish(self.mid_block(x, frames), frames)


class ClipUpBlock(nn.Module):
    """Two residual blocks, then doubling (except in the last block)."""

    def __init__(self, inner: int, outer: int, temporal: bool | None) -> None:
        super().__init__()
        self.resnets = nn.ModuleList(
            [ClipResidualBlock(inner, outer), ClipResidualBlock(outer, outer)]
        )
        if temporal is not None:
            self.upsamplers = nn.ModuleList([ClipResample(outer, up=True, temporal=temporal)])

    def forward(self, x: Tensor, frames: int) -> tuple[Tensor, int]:
        """Frames of `inner` channels to larger, perhaps more, frames of half `outer` channels."""
        for block in self.resnets:
            x = block(x, frames)
        return self.upsamplers[0](x, frames) if hasattr(self, "upsamplers") else (x, frames)


class ClipDecoder(ClipHead):
    """Latents [B T, z, h, w] to frames [B (4 T - 3), 3, 8 h, 8 w], not clamped."""

    def __init__(self, shape: VideoArchitecture) -> None:
        widths = [shape.vae_width * m for m in (shape.vae_mults[-1], *reversed(shape.vae_mults))]
        super().__init__(shape.latent_channels, widths[0], widths[-1], 3)
        self.mid_block = ClipMidBlock(widths[0])
        temporal = (*reversed(shape.vae_temporal), None)
        inner = [widths[0], *(width // 2 for width in widths[1:-1])]
        self.up_blocks = nn.ModuleList(map(ClipUpBlock, inner, widths[1:], temporal))

    def forward(self, x: Tensor, frames: int) -> tuple[Tensor, int]:
        """See the class; the frames per clip go in and come out."""
        x = self.mid_block(causal(x, frames, self.conv_in), frames)
        for block in self.up_blocks:
            x, frames = block(x, frames)
        return self.finish(x, frames)


class ClipVAE(nn.Module):
    """Encoder and decoder with the 1x1 convolutions between them."""

    def __init__(self, shape: VideoArchitecture) -> None:
        super().__init__()
        self.encoder, self.decoder = ClipEncoder(shape), ClipDecoder(shape)
        self.quant_conv = nn.Conv3d(2 * shape.latent_channels, 2 * shape.latent_channels, 1)
        self.post_quant_conv = nn.Conv3d(shape.latent_channels, shape.latent_channels, 1)
        for name, parameter in self.named_parameters():
            if name.endswith(FROZEN):
                nn.init.zeros_(parameter.requires_grad_(False))
        self.start()

    def start(self) -> None:
        """Let time be left alone: the first training step then meets a working picture VAE."""
        for module in self.modules():
            if isinstance(module, ClipResample) and hasattr(module, "time_conv"):
                module.start()

    def load_pictures(self, weights: Path = PICTURE_VAE) -> None:
        """Take over a picture VAE, whose kernels see the present frame only."""
        self.load_state_dict({name: w.float() for name, w in load_weights(weights).items()})
        self.start()

    def encode(self, clips: Tensor) -> tuple[Tensor, Tensor]:
        """Clips in [-1, 1] to mean and log-variance.

        Args:
            clips: [B, 3, T, H, W], T = 4 n + 1.

        Returns:
            Two of [B, z, n + 1, H/8, W/8].
        """
        x, frames = self.encoder(*_as_frames(clips))
        mean, log_variance = causal(x, frames, self.quant_conv).chunk(2, dim=1)
        return _as_clips(mean, frames), _as_clips(log_variance, frames)

    def decode(self, latents: Tensor) -> Tensor:
        """Latents [B, z, n + 1, h, w] to clips [B, 3, 4 n + 1, 8 h, 8 w], up to overshoot."""
        x, frames = _as_frames(latents)
        return _as_clips(*self.decoder(causal(x, frames, self.post_quant_conv), frames))


def _as_frames(clips: Tensor) -> tuple[Tensor, int]:
    """[B, C, T, H, W] to [B T, C, H, W], channels last on a GPU, and T."""
    x = clips.transpose(1, 2).flatten(0, 1)
    if x.is_cuda:
        x = x.contiguous(memory_format=torch.channels_last)
    return x, clips.shape[2]


def _as_clips(x: Tensor, frames: int) -> Tensor:
    return x.unflatten(0, (-1, frames)).transpose(1, 2)
