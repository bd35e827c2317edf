"""Layers of the clip VAE: those of the picture VAE, with kernels that also look back in time.

Clips are kept as a batch of frames, [B T, C, H, W], so that everything within a frame is the
picture VAE's own code, and a causal 3-D convolution is a 2-D one over three frames' channels. The
real class feeds four frames at a time and caches the last ones; this form takes all at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from workbench.zoo.training.vae_blocks import (
    Attention,
    Norm,
    Resample,
    _fused,
    _pixels,
    _rows,
    add_rows,
)

REACH = 3  # frames that a kernel sees: two before and the present one


def causal(x: Tensor, frames: int, convolution: nn.Conv3d, *, biased: bool = True) -> Tensor:
    """A 3-D convolution that sees no later frame, zeros before the first.

    Args:
        x: [B * frames, C, H, W].
        frames: Frames per clip.
        convolution: Holds the kernel, [O, C, 3, k, k] or [O, C, 1, 1, 1].
        biased: Whether to add its bias.

    Returns:
        [B * frames, O, H, W].
    """
    bias = convolution.bias if biased else None
    if convolution.weight.shape[2] == 1:
        return F.conv2d(x, convolution.weight[:, :, 0], bias)
    clips = x.permute(0, 2, 3, 1).unflatten(0, (-1, frames))
    clips = F.pad(clips, (0, 0, 0, 0, 0, 0, REACH - 1, 0))
    shifted = [clips[:, start : start + frames] for start in range(REACH)]
    return _over_channels(shifted, convolution.weight, bias)


def _over_channels(shifted: Sequence[Tensor], weight: Tensor, bias: Tensor | None) -> Tensor:
    """Frames [B, T, H, W, C] of each time offset, through a kernel [O, C, offsets, k, k]."""
    x = torch.cat(list(shifted), dim=-1).flatten(0, 1).permute(0, 3, 1, 2)
    kernel = weight.transpose(1, 2).flatten(1, 2)
    return F.conv2d(x, kernel, bias, padding=weight.shape[-1] // 2)


class ClipResidualBlock(nn.Module):
    """Two causal convolutions, each behind norm and SiLU, added to the input or its 1x1 image."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = Norm(inner), Norm(outer)
        self.conv1 = nn.Conv3d(inner, outer, REACH)
        self.conv2 = nn.Conv3d(outer, outer, REACH)
        self.conv_shortcut = nn.Conv3d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x: Tensor, frames: int) -> Tensor:
        """[B * frames, inner, H, W] to [B * frames, outer, H, W]."""
        hidden = causal(self.norm1.silu(x), frames, self.conv1, biased=False)
        hidden = causal(self.norm2.silu(hidden, self.conv1.bias), frames, self.conv2, biased=False)
        bias = self.conv2.bias
        if isinstance(self.conv_shortcut, nn.Conv3d):
            x = causal(x, frames, self.conv_shortcut, biased=False)
            bias = bias + self.conv_shortcut.bias
        return _pixels(_fused(add_rows, _rows(hidden), bias, _rows(x)), hidden)


class ClipResample(Resample):
    """Halve or double height and width and, if `temporal`, the frames after the first."""

    def forward(self, x: Tensor, frames: int) -> tuple[Tensor, int]:
        """[B * frames, C, H, W] to frames of the new size, and how many there are per clip.

        1 + n frames become 1 + n / 2, or 1 + 2 n: the first one is never mixed with others.
        """
        temporal = hasattr(self, "time_conv")
        if temporal and self.up and frames > 1:
            x, frames = self._doubled(x, frames)
        x = super().forward(x)
        if temporal and not self.up and frames > 1:
            x, frames = self._halved(x, frames)
        return x, frames

    def _halved(self, x: Tensor, frames: int) -> tuple[Tensor, int]:
        clips = x.permute(0, 2, 3, 1).unflatten(0, (-1, frames))
        after = (frames - 1) // 2
        shifted = [clips[:, start : start + 2 * after : 2] for start in range(REACH)]
        made = _over_channels(shifted, self.time_conv.weight, self.time_conv.bias)
        return _joined(x, frames, made), 1 + after

    def _doubled(self, x: Tensor, frames: int) -> tuple[Tensor, int]:
        later = x.permute(0, 2, 3, 1).unflatten(0, (-1, frames))[:, 1:].flatten(0, 1)
        pairs = causal(later.permute(0, 3, 1, 2), frames - 1, self.time_conv)
        made = pairs.permute(0, 2, 3, 1).unflatten(-1, (2, -1)).movedim(-2, 1).flatten(0, 1)
        return _joined(x, frames, made.permute(0, 3, 1, 2)), 2 * frames - 1

    @torch.no_grad()
    def start(self) -> None:
        """Begin as no mixing at all: halving keeps each second frame, doubling repeats frames."""
        weight = self.time_conv.weight
        channels = weight.shape[1]
        weight.zero_()
        self.time_conv.bias.zero_()
        weight[:, :, -1, 0, 0] = torch.eye(channels).repeat(weight.shape[0] // channels, 1)


def _joined(x: Tensor, frames: int, later: Tensor) -> Tensor:
    """The first frame of each clip in x, then its later frames; both are frame batches."""
    first = x.permute(0, 2, 3, 1).unflatten(0, (-1, frames))[:, :1]
    rest = later.permute(0, 2, 3, 1).unflatten(0, (len(first), -1))
    return torch.cat([first.to(rest.dtype), rest], 1).flatten(0, 1).permute(0, 3, 1, 2)


class ClipMidBlock(nn.Module):
    """Residual block, attention within each frame, residual block."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.resnets = nn.ModuleList(ClipResidualBlock(channels, channels) for _ in range(2))
        self.attentions = nn.ModuleList([Attention(channels)])

    def forward(self, x: Tensor, frames: int) -> Tensor:
        """[B * frames, C, H, W] to the same shape."""
        return self.resnets[1](self.attentions[0](self.resnets[0](x, frames)), frames)
