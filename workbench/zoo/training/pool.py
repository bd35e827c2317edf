"""What one training step draws from, all on the device: encoded pictures and captions."""

from __future__ import annotations

import torch
from torch import Tensor

from workbench.zoo.training.codec import CHUNK, Codec
from workbench.zoo.training.corpus import Corpus
from workbench.zoo.training.recipe import Recipe
from workbench.zoo.training.tokenizer import PREFIX_TOKENS

TEXT_MULTIPLE = 16
"""Text is padded to such a length: attention masks on the GPU want aligned rows."""

EMPTY, SPACE, JUNK = 0.04, 0.04, 0.02
"""Shares of captions replaced by "", " " and others: rows 0, 1, 2 ... of `corpus.empty_tokens`."""


def text_length(tokens: Tensor) -> int:
    """Caption length for ids [..., L]: without the template prefix, rounded up."""
    return -(-(tokens.shape[-1] - PREFIX_TOKENS) // TEXT_MULTIPLE) * TEXT_MULTIPLE


def padded(tokens: Tensor, length: int, pad_id: int, device: torch.device) -> Tensor:
    """Ids [..., L] cut or padded on the right to prefix + `length`, on the device."""
    missing = PREFIX_TOKENS + length - tokens.shape[-1]
    return torch.nn.functional.pad(tokens, (0, missing), value=pad_id).to(device)


def text_mask(lengths: Tensor, length: int) -> Tensor:
    """True where a caption token stands, [B, length], for full lengths (prefix included) [B]."""
    return torch.arange(length, device=lengths.device) < (lengths - PREFIX_TOKENS)[:, None]


class Captions:
    """Token tables on the device, with caption dropout."""

    def __init__(self, corpus: Corpus, device: torch.device) -> None:
        self.length = text_length(corpus.tokens)
        self.tokens = padded(corpus.tokens, self.length, corpus.pad_id, device)
        self.empty_tokens = padded(corpus.empty_tokens, self.length, corpus.pad_id, device)
        self.lengths, self.empty_lengths = (
            corpus.lengths.to(device),
            corpus.empty_lengths.to(device),
        )

    def draw(self, origins: Tensor) -> tuple[Tensor, Tensor]:
        """Draw a caption per picture index [B]: ids [B, L], lengths [B], a tenth negatives."""
        count, device = len(origins), origins.device
        variant = torch.randint(self.tokens.shape[1], (count,), device=device)
        junk = torch.randint(2, max(3, len(self.empty_tokens)), (count,), device=device)
        junk = junk.clamp(max=len(self.empty_tokens) - 1)
        lot = torch.rand(count, device=device)
        kind = torch.where(lot < EMPTY, 0, torch.where(lot < EMPTY + SPACE, 1, junk))
        dropped = lot < EMPTY + SPACE + JUNK
        tokens = torch.where(
            dropped[:, None], self.empty_tokens[kind], self.tokens[origins, variant]
        )
        return tokens, torch.where(
            dropped, self.empty_lengths[kind], self.lengths[origins, variant]
        )


class Pool:
    """Encoded pictures with their corpus indices; a few at a time are replaced, round robin."""

    chunk = CHUNK

    def __init__(self, corpus: Corpus, codec: Codec, recipe: Recipe, device: torch.device) -> None:
        self.corpus, self.codec, self.device = corpus, codec, device
        self.size, self.batch, self.next = recipe.pool, min(recipe.refresh, recipe.pool), 0
        self.origins = torch.randint(len(corpus), (self.size,), device=device)
        self.latents = torch.cat(
            [self.encoded(chunk).bfloat16() for chunk in self.origins.split(self.chunk)]
        )

    def encoded(self, origins: Tensor) -> Tensor:
        """What the transformer learns to make of the corpus entries [n]: latents [n, ...]."""
        return self.codec.encode(self.corpus.pictures(origins))

    def refresh(self) -> None:
        """Replace the oldest entries by newly drawn pictures."""
        start = min(self.next, self.size - self.batch)
        origins = torch.randint(len(self.corpus), (self.batch,), device=self.device)
        self.latents[start : start + self.batch] = self.encoded(origins).bfloat16()
        self.origins[start : start + self.batch] = origins
        self.next = (start + self.batch) % self.size

    def draw(self, count: int) -> tuple[Tensor, Tensor]:
        """Random latents fp32, [count, 256, 64] of pictures, and their corpus indices [count]."""
        slots = torch.randint(self.size, (count,), device=self.device)
        return self.latents[slots].float(), self.origins[slots]
