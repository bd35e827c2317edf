"""A twin of transformers' `UMT5EncoderModel`: the same names, equal where a token stands."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from workbench.zoo.training.text_net import RMSNorm
from workbench.zoo.training.video.recipe import VideoArchitecture

BUCKETS, FARTHEST = 32, 128


def buckets(length: int) -> Tensor:
    """Which learnt bias a pair of positions shares, int64 [length, length]: query by key.

    Half of the 32 buckets are for keys that come later. Of each half, eight are for single
    distances and eight for ranges that grow in proportion up to 128 (T5, arXiv 1910.10683, 2.1).
    """
    place = torch.arange(length)
    distance = place[None, :] - place[:, None]
    half, exact = BUCKETS // 2, BUCKETS // 4
    far = (distance.abs().clamp(min=1) / exact).log() / math.log(FARTHEST / exact)
    ranged = (exact + (far * (half - exact)).long()).clamp(max=half - 1)
    near = distance.abs()
    return half * (distance > 0) + torch.where(near < exact, near, ranged)


class Attention(nn.Module):
    """Attention in both directions, not scaled, with a bias by distance."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.relative_attention_bias = nn.Embedding(BUCKETS, heads)

    def forward(self, x: Tensor, pairs: Tensor, absent: Tensor) -> Tensor:
        """[B, L, width] to the same; `pairs` are buckets, `absent` [B, 1, 1, L] hides keys."""
        query, key, value = (
            f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        bias = self.relative_attention_bias(pairs).permute(2, 0, 1)
        scores = (query @ key.mT).float() + bias
        weights = scores.masked_fill(absent, -1e9).softmax(-1)
        return self.o((weights.to(value.dtype) @ value).transpose(1, 2).flatten(2))


class GatedMLP(nn.Module):
    """Two-layer network gated by tanh-GELU, without biases."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.wi_0, self.wi_1 = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.wo = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] to the same shape."""
        return self.wo(F.gelu(self.wi_0(x), approximate="tanh") * self.wi_1(x))


class Block(nn.Module):
    """Attention and gated MLP, each behind a norm, each added to the stream."""

    def __init__(self, shape: VideoArchitecture) -> None:
        super().__init__()
        attention, feed = nn.Module(), nn.Module()
        attention.SelfAttention = Attention(shape.text_width, shape.text_heads)
        feed.DenseReluDense = GatedMLP(shape.text_width, shape.text_hidden)
        for layer in (attention, feed):
            layer.layer_norm = RMSNorm(shape.text_width)
        self.layer = nn.ModuleList([attention, feed])

    def forward(self, x: Tensor, pairs: Tensor, absent: Tensor) -> Tensor:
        """[B, L, width] to the same shape."""
        attention, feed = self.layer
        x = x + attention.SelfAttention(attention.layer_norm(x), pairs, absent)
        return x + feed.DenseReluDense(feed.layer_norm(x))


class TextEncoder(nn.Module):
    """Token ids [B, L] to states [B, L, width], zero where no token stands, as Wan wants them."""

    def __init__(self, shape: VideoArchitecture, vocabulary: int, length: int) -> None:
        super().__init__()
        self.shared = nn.Embedding(vocabulary, shape.text_width)
        self.encoder = nn.Module()
        self.encoder.block = nn.ModuleList(Block(shape) for _ in range(shape.text_layers))
        self.encoder.final_layer_norm = RMSNorm(shape.text_width)
        self.register_buffer("pairs", buckets(length), persistent=False)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                nn.init.normal_(weight, std=_spread(name, weight.shape[1], shape))

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Ids [B, L] and how many of each row count [B], see the class."""
        there = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        x, absent = self.shared(tokens), ~there[:, None, None]
        for block in self.encoder.block:
            x = block(x, self.pairs, absent)
        return self.encoder.final_layer_norm(x) * there[..., None]


def _spread(name: str, inputs: int, shape: VideoArchitecture) -> float:
    """Standard deviation at the start, as T5's: queries small, since nothing scales the scores."""
    if name.startswith("shared"):
        return 1.0
    if name.endswith("SelfAttention.q.weight"):
        return (inputs * shape.text_width / shape.text_heads) ** -0.5
    return shape.text_width**-0.5 if "relative" in name else inputs**-0.5
