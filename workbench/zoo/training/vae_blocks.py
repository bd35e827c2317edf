"""Layers of the picture VAE, with their pointwise parts fused by `torch.compile` on a GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def rms_silu(rows: Tensor, gamma: Tensor, bias: Tensor | None) -> Tensor:
    """SiLU of the scaled unit vector of each row.

    Args:
        rows: [M, C], one row per pixel.
        gamma: C values of any shape.
        bias: [C], the bias left out of the convolution before, or None.
    """
    x = rows.float() if bias is None else rows.float() + bias
    length = x.square().sum(-1, keepdim=True).clamp_min(1e-24).rsqrt()
    return F.silu(x * length * (gamma.flatten() * x.shape[-1] ** 0.5)).to(rows.dtype)


def add_rows(rows: Tensor, bias: Tensor, shortcut: Tensor) -> Tensor:
    """[M, C] + [C] + [M, C], in the dtype of the first."""
    return (rows + bias + shortcut).to(rows.dtype)


@functools.cache
def _compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return torch.compile(
        function, dynamic=True
    )  # C stays static: it unifies with a parameter's shape


def _fused(function: Callable[..., Tensor], first: Tensor, *others: Tensor | None) -> Tensor:
    return (_compiled(function) if first.is_cuda else function)(first, *others)


def _rows(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])


def _pixels(rows: Tensor, like: Tensor) -> Tensor:
    batch, _, height, width = like.shape
    return rows.view(batch, height, width, -1).permute(0, 3, 1, 2)


class Norm(nn.Module):
    """RMS norm over channels; `gamma` is [C, 1, 1, 1] or [C, 1, 1], as in the checkpoint."""

    def __init__(self, channels: int, axes: int = 3) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels, *[1] * axes))

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] to the same shape: unit length over C, times sqrt(C) gamma."""
        scale = self.gamma.view(1, -1, 1, 1) * x.shape[1] ** 0.5
        return (F.normalize(x.float(), dim=1) * scale).to(x.dtype)

    def silu(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """The norm of x + bias, then SiLU, as one kernel."""
        return _pixels(_fused(rms_silu, _rows(x), self.gamma, bias), x)


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions, each behind norm and SiLU, added to the input or its 1x1 image."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = Norm(inner), Norm(outer)
        self.conv1 = nn.Conv2d(inner, outer, 3, padding=1)
        self.conv2 = nn.Conv2d(outer, outer, 3, padding=1)
        self.conv_shortcut = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """[B, inner, H, W] to [B, outer, H, W]."""
        hidden = F.conv2d(self.norm1.silu(x), self.conv1.weight, padding=1)
        hidden = F.conv2d(self.norm2.silu(hidden, self.conv1.bias), self.conv2.weight, padding=1)
        bias = self.conv2.bias
        if isinstance(self.conv_shortcut, nn.Conv2d):
            x, bias = F.conv2d(x, self.conv_shortcut.weight), bias + self.conv_shortcut.bias
        return _pixels(_fused(add_rows, _rows(hidden), bias, _rows(x)), hidden)


class Attention(nn.Module):
    """One-head self-attention over all positions of a picture."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = Norm(channels, axes=2)
        self.to_qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.proj = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] to the same shape."""
        qkv = self.to_qkv(self.norm(x)).flatten(2).transpose(1, 2).unsqueeze(1)
        mixed = F.scaled_dot_product_attention(*qkv.chunk(3, dim=-1))
        return x + self.proj(mixed.squeeze(1).transpose(1, 2).reshape(x.shape))


class Resample(nn.Module):
    """Halve or (`up`) double height and width; `time_conv` only rides along."""

    def __init__(self, channels: int, *, up: bool, temporal: bool) -> None:
        super().__init__()
        self.up = up
        conv = (
            nn.Conv2d(channels, channels // 2, 3, padding=1)
            if up
            else nn.Conv2d(channels, channels, 3, stride=2)
        )
        self.resample = nn.Sequential(nn.Identity(), conv)
        if temporal:
            self.time_conv = nn.Conv3d(channels, channels * (2 if up else 1), (3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] to [B, C, H/2, W/2], or [B, C/2, 2H, 2W] if `up`."""
        if self.up:
            resized = F.interpolate(x, scale_factor=2.0, mode="nearest-exact").to(x.dtype)
        else:
            resized = F.pad(x, (0, 1, 0, 1))
        return self.resample(resized)
