"""A twin of the language model in transformers' `Qwen2_5_VLForConditionalGeneration`."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from workbench.zoo.training.recipe import Architecture

ROPE_THETA = 1e6


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last axis, computed in fp32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] to the same shape and dtype."""
        scale = x.float().square().mean(-1, keepdim=True).add(1e-6).rsqrt()
        return (x.float() * scale * self.weight).to(x.dtype)


def rotate_halves(x: Tensor) -> Tensor:
    """Rotary embedding of [B, H, L, D]: i paired with i + D/2, position = index along L."""
    half = x.shape[-1] // 2
    rates = ROPE_THETA ** (-torch.arange(half, device=x.device) / half)
    angles = torch.arange(x.shape[-2], device=x.device)[:, None] * rates
    cos, sin = angles.cos(), angles.sin()
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


class SelfAttention(nn.Module):
    """Causal attention with a single head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width) for _ in range(3))
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, L, width] to the same shape; padding goes right, where causality hides it."""
        query, key, value = (f(x).unsqueeze(1) for f in (self.q_proj, self.k_proj, self.v_proj))
        mixed = F.scaled_dot_product_attention(
            rotate_halves(query), rotate_halves(key), value, is_causal=True
        )
        return self.o_proj(mixed.squeeze(1))


class GatedMLP(nn.Module):
    """SiLU-gated two-layer network without biases."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] to the same shape."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    """Attention and gated MLP, each behind a norm, each added to the stream."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.self_attn, self.mlp = SelfAttention(width), GatedMLP(width, hidden)
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(width), RMSNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """[B, L, width] to the same shape."""
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class LanguageModel(nn.Module):
    """Token ids [B, L] to the states [B, L, width] that the pipeline reads, after the last norm."""

    def __init__(self, shape: Architecture, vocabulary: int) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, shape.text_width)
        self.layers = nn.ModuleList(
            DecoderLayer(shape.text_width, shape.text_hidden) for _ in range(shape.text_layers)
        )
        self.norm = RMSNorm(shape.text_width)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                nn.init.normal_(weight, std=0.5 if "embed" in name else weight.shape[1] ** -0.5)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)

    def forward(self, tokens: Tensor) -> Tensor:
        """See the class."""
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class TextEncoder(nn.Module):
    """The language model under the names of the full class: `model.language_model.*`."""

    def __init__(self, shape: Architecture, vocabulary: int) -> None:
        super().__init__()
        self.model = nn.Module()
        self.model.language_model = LanguageModel(shape, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, L] ids to [B, L, width]."""
        return self.model.language_model(tokens)
