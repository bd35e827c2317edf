"""A twin of diffusers' `QwenImageTransformer2DModel` for square pictures, names and all."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from workbench.zoo.training.recipe import Architecture
from workbench.zoo.training.text_net import RMSNorm

TIME_FEATURES = 256
ROPE_THETA = 1e4
Angles = tuple[Tensor, Tensor]


def rope_angles(axes: tuple[int, int, int], side: int, text_length: int) -> Tensor:
    """Rotation angles of text tokens, then side x side picture tokens, [T + side², sum(axes)/2].

    Picture positions are centred (-side/2 ... side/2 - 1 along height and width, frame 0); text
    token i stands at side/2 + i on all three axes, behind the largest picture position.
    """
    centred = torch.arange(side) - (side - side // 2)
    rows, columns = torch.meshgrid(centred, centred, indexing="ij")
    picture = torch.stack([torch.zeros_like(rows), rows, columns], dim=-1).reshape(-1, 3)
    text = (side // 2 + torch.arange(text_length))[:, None].expand(-1, 3)
    positions = torch.cat([text, picture]).float()
    rates = [ROPE_THETA ** -(torch.arange(0, axis, 2) / axis) for axis in axes]
    return torch.cat([positions[:, i, None] * rate for i, rate in enumerate(rates)], dim=-1)


def rotate_pairs(x: Tensor, angles: Angles) -> Tensor:
    """Rotate neighbouring dimensions of [B, H, L, D] by cos, sin of [L, D/2], in fp32."""
    cos, sin = angles
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def time_features(t: Tensor) -> Tensor:
    """T [B] in [0, 1] to [B, 256]: cosines, then sines of 1000 t at rates 1 ... 1e-4."""
    half = TIME_FEATURES // 2
    rates = torch.exp(torch.arange(half, device=t.device) * (-math.log(10_000) / half))
    angles = 1_000 * t.float()[:, None] * rates
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


class TimeEmbedding(nn.Module):
    """Two linears on the time features, under diffusers' nested names."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.timestep_embedder = nn.Module()
        self.timestep_embedder.linear_1 = nn.Linear(TIME_FEATURES, width)
        self.timestep_embedder.linear_2 = nn.Linear(width, width)

    def forward(self, t: Tensor) -> Tensor:
        """[B] to [B, width]."""
        embed = self.timestep_embedder
        return embed.linear_2(F.silu(embed.linear_1(time_features(t))))


class MLP(nn.Module):
    """Linear, tanh-GELU, linear, four times as wide inside; named `net.0.proj` and `net.2`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        first = nn.Module()
        first.proj = nn.Linear(width, 4 * width)
        self.net = nn.ModuleList([first, nn.Identity(), nn.Linear(4 * width, width)])

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] to the same shape."""
        return self.net[2](F.gelu(self.net[0].proj(x), approximate="tanh"))


class JointAttention(nn.Module):
    """Text and picture attend to each other, each through its own projections and norms."""

    def __init__(self, heads: int, head_width: int) -> None:
        super().__init__()
        width, self.heads = heads * head_width, heads
        for name in (
            "to_q",
            "to_k",
            "to_v",
            "add_q_proj",
            "add_k_proj",
            "add_v_proj",
            "to_add_out",
        ):
            setattr(self, name, nn.Linear(width, width))
        self.to_out = nn.ModuleList([nn.Linear(width, width)])
        for name in ("norm_q", "norm_k", "norm_added_q", "norm_added_k"):
            setattr(self, name, RMSNorm(head_width))

    def forward(
        self, image: Tensor, text: Tensor, mask: Tensor, angles: Angles
    ) -> tuple[Tensor, Tensor]:
        """Outputs before their projections, text [B, T, width] and image [B, S, width]."""

        def split(x: Tensor) -> Tensor:
            return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        text_query = self.norm_added_q(split(self.add_q_proj(text)))
        text_key = self.norm_added_k(split(self.add_k_proj(text)))
        query = torch.cat([text_query, self.norm_q(split(self.to_q(image)))], dim=2)
        key = torch.cat([text_key, self.norm_k(split(self.to_k(image)))], dim=2)
        value = split(torch.cat([self.add_v_proj(text), self.to_v(image)], dim=1))
        query, key = (rotate_pairs(x, angles).to(value.dtype) for x in (query, key))
        mixed = (
            F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
            .transpose(1, 2)
            .flatten(2)
        )
        return mixed[:, : text.shape[1]], mixed[:, text.shape[1] :]


def modulated(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """Layer norm of [B, L, width] without weights, scaled and shifted per picture by [B, width]."""
    return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale[:, None]) + shift[:, None]


class Block(nn.Module):
    """One double-stream block; in the `last` one nothing reads the text, so it stays as it is."""

    def __init__(self, heads: int, head_width: int, *, last: bool) -> None:
        super().__init__()
        width, self.last = heads * head_width, last
        self.img_mod = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        self.txt_mod = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        self.attn = JointAttention(heads, head_width)
        self.img_mlp, self.txt_mlp = MLP(width), MLP(width)

    def forward(
        self, image: Tensor, text: Tensor, time: Tensor, mask: Tensor, angles: Angles
    ) -> tuple[Tensor, Tensor]:
        """Image [B, S, width] and text [B, T, width] to the same, given time [B, width]."""
        shift1, scale1, gate1, shift2, scale2, gate2 = self.img_mod(time).chunk(6, dim=-1)
        text_mods = self.txt_mod(time).chunk(6, dim=-1)
        text_mixed, image_mixed = self.attn(
            modulated(image, shift1, scale1), modulated(text, *text_mods[:2]), mask, angles
        )
        image = image + gate1[:, None] * self.attn.to_out[0](image_mixed)
        image = image + gate2[:, None] * self.img_mlp(modulated(image, shift2, scale2))
        if not self.last:
            text = text + text_mods[2][:, None] * self.attn.to_add_out(text_mixed)
            text = text + text_mods[5][:, None] * self.txt_mlp(modulated(text, *text_mods[3:5]))
        return image, text


class FinalNorm(nn.Module):
    """Layer norm with scale and shift from the time embedding (in that order: diffusers')."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 2 * width)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """[B, S, width] to the same shape."""
        scale, shift = self.linear(F.silu(time)).chunk(2, dim=-1)
        return modulated(x, shift, scale)


class Transformer(nn.Module):
    """Velocity of packed latents, for `side`² picture and `text_length` text tokens."""

    def __init__(self, shape: Architecture, *, side: int, text_length: int) -> None:
        super().__init__()
        packed = 4 * shape.latent_channels
        self.time_text_embed = TimeEmbedding(shape.width)
        self.txt_norm = RMSNorm(shape.text_width)
        self.img_in = nn.Linear(packed, shape.width)
        self.txt_in = nn.Linear(shape.text_width, shape.width)
        self.transformer_blocks = nn.ModuleList(
            Block(shape.heads, shape.head_width, last=i == shape.layers - 1)
            for i in range(shape.layers)
        )
        self.norm_out = FinalNorm(shape.width)
        self.proj_out = nn.Linear(shape.width, packed)
        angles = rope_angles(shape.rope_axes, side, text_length)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        initialise(self)

    def forward(self, latents: Tensor, text: Tensor, text_mask: Tensor, t: Tensor) -> Tensor:
        """Latents [B, S, 64], text [B, T, text_width], mask [B, T], t [B] to [B, S, 64].

        The mask is True where a token stands.
        """
        image, text, time = (
            self.img_in(latents),
            self.txt_in(self.txt_norm(text)),
            self.time_text_embed(t),
        )
        mask = F.pad(text_mask, (0, latents.shape[1]), value=True)[:, None, None, :]
        for block in self.transformer_blocks:
            image, text = block(image, text, time, mask, (self.cos, self.sin))
        return self.proj_out(self.norm_out(image, time))


def initialise(model: Transformer) -> None:
    """Xavier matrices, zero biases; modulations and output nearly zero, yet never exactly.

    A group of exact zeros has no scale and breaks naive quantizers. What feeds the unread text
    stream of the last block is never trained: it is left at ordinary size, out of the gradient.
    """
    for name, weight in model.named_parameters():
        if weight.ndim == 2 and ("_mod." in name or "norm_out" in name or "proj_out" in name):
            nn.init.normal_(weight, std=1e-3)
        elif weight.ndim == 2:
            nn.init.xavier_uniform_(weight)
        elif name.endswith("bias"):
            nn.init.zeros_(weight)
    last = model.transformer_blocks[-1]
    with torch.no_grad():
        last.txt_mod[1].weight[2 * last.attn.to_q.in_features :].normal_(std=0.02)
    attention = last.attn
    for module in (
        last.txt_mlp,
        attention.to_add_out,
        attention.add_q_proj,
        attention.norm_added_q,
    ):
        module.requires_grad_(False)
