"""A picture-only twin of diffusers' `AutoencoderKLQwenImage`: 2-D kernels, the same names.

A single frame meets only the last temporal slice of a causal 3-D kernel (its past is zeros), so
the twin keeps that slice; `inflate` writes the full kernels for diffusers, `deflate` reads them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F

from workbench.zoo.training.recipe import Architecture
from workbench.zoo.training.vae_blocks import Attention, Norm, Resample, ResidualBlock

FLAT_KERNELS = re.compile(r"resample\.1|to_qkv|attentions\.\d+\.proj")  # Conv2d in diffusers too
FROZEN = re.compile(r"time_conv|conv2\.bias|conv_shortcut\.bias|resample\.1\.bias")
"""Not trained: unseen by single frames, or biases whose gradients cost more than they give."""


class MidBlock(nn.Module):
    """Residual block, attention, residual block."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.resnets = nn.ModuleList(ResidualBlock(channels, channels) for _ in range(2))
        self.attentions = nn.ModuleList([Attention(channels)])

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] to the same shape."""
        return self.resnets[1](self.attentions[0](self.resnets[0](x)))


class Head(nn.Module):
    """`conv_in`, the blocks between, and norm, SiLU, `conv_out`: what encoder and decoder share."""

    def __init__(self, first: int, inner: int, outer: int, last: int) -> None:
        super().__init__()
        self.conv_in = nn.Conv2d(first, inner, 3, padding=1)
        self.norm_out = Norm(outer)
        self.conv_out = nn.Conv2d(outer, last, 3, padding=1)

    def finish(self, x: Tensor) -> Tensor:
        """[B, outer, H, W] to [B, last, H, W]."""
        return self.conv_out(self.norm_out.silu(x))


class Encoder(Head):
    """Pictures [B, 3, H, W] to moments [B, 2 z, H/8, W/8]."""

    def __init__(self, shape: Architecture) -> None:
        widths = [shape.vae_width * m for m in (1, *shape.vae_mults)]
        super().__init__(3, widths[0], widths[-1], 2 * shape.latent_channels)
        blocks: list[nn.Module] = []
        for level, (inner, outer) in enumerate(pairwise(widths)):
            blocks.append(ResidualBlock(inner, outer))
            if level < len(shape.vae_temporal):
                blocks.append(Resample(outer, up=False, temporal=shape.vae_temporal[level]))
        self.down_blocks = nn.ModuleList(blocks)
        self.mid_block = MidBlock(widths[-1])

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        x = self.conv_in(x)
        for block in self.down_blocks:
            x = block(x)
        return self.finish(self.mid_block(x))


class UpBlock(nn.Module):
    """Two residual blocks, then doubling (except in the last block)."""

    def __init__(self, inner: int, outer: int, temporal: bool | None) -> None:
        super().__init__()
        self.resnets = nn.ModuleList([ResidualBlock(inner, outer), ResidualBlock(outer, outer)])
        if temporal is not None:
            self.upsamplers = nn.ModuleList([Resample(outer, up=True, temporal=temporal)])

    def forward(self, x: Tensor) -> Tensor:
        """[B, inner, H, W] to [B, outer/2, 2H, 2W], or [B, outer, H, W] in the last block."""
        for part in self.children():
            for module in part:
                x = module(x)
        return x


class Decoder(Head):
    """Latents [B, z, h, w] to pictures [B, 3, 8h, 8w], not clamped."""

    def __init__(self, shape: Architecture) -> None:
        widths = [shape.vae_width * m for m in (shape.vae_mults[-1], *reversed(shape.vae_mults))]
        super().__init__(shape.latent_channels, widths[0], widths[-1], 3)
        self.mid_block = MidBlock(widths[0])
        temporal = (*reversed(shape.vae_temporal), None)
        inner = [widths[0], *(width // 2 for width in widths[1:-1])]
        self.up_blocks = nn.ModuleList(map(UpBlock, inner, widths[1:], temporal))

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        x = self.mid_block(self.conv_in(x))
        for block in self.up_blocks:
            x = block(x)
        return self.finish(x)


class PictureVAE(nn.Module):
    """Encoder and decoder with the 1x1 convolutions between them."""

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        self.encoder, self.decoder = Encoder(shape), Decoder(shape)
        self.quant_conv = nn.Conv2d(2 * shape.latent_channels, 2 * shape.latent_channels, 1)
        self.post_quant_conv = nn.Conv2d(shape.latent_channels, shape.latent_channels, 1)
        for name, parameter in self.named_parameters():
            if FROZEN.search(name):
                parameter.requires_grad_(False)
                if name.endswith("bias"):
                    nn.init.zeros_(parameter)

    def encode(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """Pictures [B, 3, H, W] in [-1, 1] to mean and log-variance, each [B, z, H/8, W/8]."""
        mean, log_variance = self.quant_conv(self.encoder(pictures)).chunk(2, dim=1)
        return mean, log_variance

    def decode(self, latents: Tensor) -> Tensor:
        """Latents [B, z, h, w] to pictures [B, 3, 8h, 8w], in [-1, 1] up to overshoot."""
        return self.decoder(self.post_quant_conv(latents))


def inflate(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Causal kernels [o, i, k, k] become diffusers' [o, i, k, k, k], zero but the last slice."""
    return {
        name: _inflated(value) if _causal(name, value, 4) else value
        for name, value in state.items()
    }


def deflate(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `inflate` on what single frames see."""
    return {
        name: value[:, :, -1] if _causal(name, value, 5) else value for name, value in state.items()
    }


def _causal(name: str, value: Tensor, ndim: int) -> bool:
    is_kernel = name.endswith("weight") and value.ndim == ndim
    return is_kernel and "time_conv" not in name and not FLAT_KERNELS.search(name)


def _inflated(kernel: Tensor) -> Tensor:
    depth = kernel.shape[-1]
    return F.pad(kernel.unsqueeze(2), (0, 0, 0, 0, depth - 1, 0))
