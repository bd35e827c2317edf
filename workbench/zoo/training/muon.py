"""Muon: orthogonalised momentum, so that every direction of a weight moves equally fast.

Method: Keller Jordan, https://kellerjordan.github.io/posts/muon (iteration and coefficients);
scale by 0.2 sqrt(max(rows, columns)), for updates of AdamW's size: Moonlight,
https://arxiv.org/abs/2502.16982.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
MOMENTUM = 0.95


def orthogonalised(matrices: Tensor, iterations: int = 5) -> Tensor:
    """Bring the singular values of [N, rows, columns] near 1 (Newton-Schulz; bf16 on a GPU)."""
    a, b, c = COEFFICIENTS
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    for _ in range(iterations):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if tall else x).to(matrices.dtype)


class Muon:
    """Nesterov momentum on weights read as matrices [out, all else], equal shapes in a batch.

    All state exists from the start and nothing waits for the device: a step can be captured in a
    CUDA graph.
    """

    def __init__(self, weights: Sequence[Tensor], rate: Tensor, decay: float) -> None:
        groups: dict[torch.Size, list[int]] = defaultdict(list)
        for index, weight in enumerate(weights):
            groups[weight.flatten(1).shape].append(index)
        self.weights, self.rate, self.decay, self.groups = weights, rate, decay, groups
        self.momenta = {
            shape: weights[0].new_zeros(len(group), *shape) for shape, group in groups.items()
        }

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        """Move each weight by its gradient, in the order given at the start."""
        for shape, group in self.groups.items():
            gradient = torch.stack([gradients[i].flatten(1) for i in group])
            momentum = self.momenta[shape].mul_(MOMENTUM).add_(gradient)
            scale = 0.2 * max(shape) ** 0.5
            updates = orthogonalised(gradient + MOMENTUM * momentum) * (self.rate * scale)
            weights = [self.weights[i] for i in group]
            torch._foreach_mul_(weights, 1 - self.rate * self.decay)
            torch._foreach_sub_(
                weights, [u.reshape(w.shape) for u, w in zip(updates, weights, strict=True)]
            )
