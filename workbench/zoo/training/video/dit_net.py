"""A twin of diffusers' `WanTransformer3DModel` with one time per latent frame, names and all."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from workbench.zoo.training.dit_net import (
    MLP,
    ROPE_THETA,
    TIME_FEATURES,
    Angles,
    rotate_pairs,
    time_features,
)
from workbench.zoo.training.video.recipe import VideoArchitecture

TEXT_LENGTH = 512
"""Tokens to which Wan pads a prompt with zeros; nothing hides the padding from attention."""

EPSILON = 1e-6


def rope_angles(grid: tuple[int, int, int], head_width: int) -> Tensor:
    """Rotation angles [frames * rows * columns, head_width / 2] of frame, row, column, from 0."""
    across = 2 * (head_width // 6)
    axes = (head_width - 2 * across, across, across)
    places = torch.meshgrid(*(torch.arange(n) for n in grid), indexing="ij")
    rates = [ROPE_THETA ** -(torch.arange(0, axis, 2).double() / axis) for axis in axes]
    angles = [place.reshape(-1, 1) * rate for place, rate in zip(places, rates, strict=True)]
    return torch.cat(angles, dim=-1)


class Linears(nn.Module):
    """`linear_1`, an activation, `linear_2`."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(inputs, width), nn.Linear(width, width)


class Conditions(nn.Module):
    """Time and text as the blocks read them."""

    def __init__(self, shape: VideoArchitecture) -> None:
        super().__init__()
        self.time_embedder = Linears(TIME_FEATURES, shape.width)
        self.time_proj = nn.Linear(shape.width, 6 * shape.width)
        self.text_embedder = Linears(shape.text_width, shape.width)

    def times(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Times [B, F] in [0, 1] to embeddings [B, F, width] and modulations [B, F, 6, width]."""
        embed = self.time_embedder
        features = time_features(t.flatten()).unflatten(0, t.shape)
        time = embed.linear_2(F.silu(embed.linear_1(features)))
        return time, self.time_proj(F.silu(time)).unflatten(-1, (6, -1))

    def text(self, states: Tensor) -> Tensor:
        """[B, T, text width] to [B, T, width]."""
        embed = self.text_embedder
        return embed.linear_2(F.gelu(embed.linear_1(states), approximate="tanh"))


class Attention(nn.Module):
    """Queries from the clip, keys and values from the clip or the text; norms over all heads."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(width, width)])
        self.norm_q, self.norm_k = (nn.RMSNorm(width, eps=EPSILON) for _ in range(2))

    def forward(
        self,
        x: Tensor,
        context: Tensor,
        *,
        angles: Angles | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        """X [B, S, width] attends to the context [B, L, width], turned by angles [S, D/2].

        The bias [L] is added to the score of each key.
        """
        query, key = self.norm_q(self.to_q(x)), self.norm_k(self.to_k(context))
        query, key, value = (
            y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for y in (query, key, self.to_v(context))
        )
        if angles is not None:
            query, key = rotate_pairs(query, angles), rotate_pairs(key, angles)
        query, key = query.to(value.dtype), key.to(value.dtype)
        if bias is not None:
            bias = bias.to(value.dtype).expand(len(x), self.heads, x.shape[1], -1)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return self.to_out[0](mixed.transpose(1, 2).flatten(2))


def modulated(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """Layer norm of [B, S, width] without weights, scaled and shifted by frame: [B, F, width]."""
    frames = F.layer_norm(x, x.shape[-1:], eps=EPSILON).unflatten(1, (shift.shape[1], -1))
    return (frames * (1 + scale[:, :, None]) + shift[:, :, None]).flatten(1, 2)


def gated(x: Tensor, gate: Tensor) -> Tensor:
    """[B, S, width] times a gate per frame [B, F, width]."""
    return (x.unflatten(1, (gate.shape[1], -1)) * gate[:, :, None]).flatten(1, 2)


class Block(nn.Module):
    """Self-attention, attention to the text, feed-forward."""

    def __init__(self, shape: VideoArchitecture) -> None:
        super().__init__()
        width = shape.width
        self.attn1, self.attn2 = (Attention(shape.heads, width) for _ in range(2))
        self.norm2 = nn.LayerNorm(width, eps=EPSILON)
        self.ffn = MLP(width)
        self.scale_shift_table = nn.Parameter(torch.randn(1, 6, width) / width**0.5)

    def forward(
        self, x: Tensor, text: Tensor, time: Tensor, angles: Angles, bias: Tensor
    ) -> Tensor:
        """[B, S, width] to the same, given text [B, L, width] and modulations [B, F, 6, width]."""
        mods = (self.scale_shift_table[:, None] + time.float()).unbind(2)
        seen = modulated(x, mods[0], mods[1])
        x = x + gated(self.attn1(seen, seen, angles=angles), mods[2])
        x = x + self.attn2(self.norm2(x), text, bias=bias)
        return x + gated(self.ffn(modulated(x, mods[3], mods[4])), mods[5])


class Transformer(nn.Module):
    """Velocity of latents for prompts of at most `text_length` tokens.

    What Wan pads to 512 tokens are equal rows, so all those beyond `text_length` are one key here,
    whose score is raised by the logarithm of their number: the same attention, cheaply.
    """

    def __init__(self, shape: VideoArchitecture, *, text_length: int) -> None:
        super().__init__()
        self.grid, width = shape.token_grid, shape.width
        self.patch_embedding = nn.Conv3d(shape.latent_channels, width, (1, 2, 2), (1, 2, 2))
        self.condition_embedder = Conditions(shape)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.proj_out = nn.Linear(width, 4 * shape.latent_channels)
        self.scale_shift_table = nn.Parameter(torch.randn(1, 2, width) / width**0.5)
        angles = rope_angles(self.grid, shape.head_width)
        for name, table in (("cos", angles.cos()), ("sin", angles.sin())):
            self.register_buffer(name, table.float(), persistent=False)
        bias = torch.zeros(text_length + 1)
        bias[-1] = math.log(TEXT_LENGTH - text_length)
        self.register_buffer("bias", bias, persistent=False)
        initialise(self)

    def forward(self, latents: Tensor, text: Tensor, t: Tensor) -> Tensor:
        """Predict noise - clean.

        Args:
            latents: [B, z, F, H, W].
            text: [B, text_length, text width], zero where no token stands.
            t: [B, F] in [0, 1], the noise level of each latent frame.
        """
        embed = self.patch_embedding
        x = F.linear(patches(latents), embed.weight.flatten(1), embed.bias).float()
        time, mods = self.condition_embedder.times(t)
        words = self.condition_embedder.text(F.pad(text, (0, 0, 0, 1)))
        for block in self.blocks:
            x = block(x, words, mods, (self.cos, self.sin), self.bias)
        shift, scale = (self.scale_shift_table[:, None] + time[:, :, None]).unbind(2)
        return unpatched(self.proj_out(modulated(x, shift, scale)), self.grid)


def patches(latents: Tensor) -> Tensor:
    """[B, z, F, H, W] to one row per 2 x 2 of a frame, [B, F H W / 4, 4 z], z slowest in it."""
    x = latents.unflatten(4, (-1, 2)).unflatten(3, (-1, 2))
    return x.permute(0, 2, 3, 5, 1, 4, 6).flatten(4).flatten(1, 3)


def unpatched(rows: Tensor, grid: tuple[int, int, int]) -> Tensor:
    """The way back, from rows in which z is fastest, as Wan's output has it."""
    x = rows.unflatten(1, grid).unflatten(-1, (2, 2, -1))
    return x.permute(0, 6, 1, 2, 4, 3, 5).flatten(5, 6).flatten(3, 4)


def initialise(model: Transformer) -> None:
    """Xavier matrices, zero biases; modulations and output nearly zero, yet never exactly."""
    for name, weight in model.named_parameters():
        if "scale_shift_table" in name or "time_proj.weight" in name or "proj_out.weight" in name:
            nn.init.normal_(weight, std=1e-3)
        elif weight.ndim >= 2:
            nn.init.xavier_uniform_(weight.flatten(1))
        elif name.endswith("bias"):
            nn.init.zeros_(weight)
