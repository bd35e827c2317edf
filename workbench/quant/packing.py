"""The stored tensors of one linear, turned back into numbers.

``auto_round:auto_gptq`` packs integers into int32 words, the lowest bits first, and stores zero
points minus one, as GPTQ does (https://github.com/AutoGPTQ/AutoGPTQ).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

BITS = {"W4A16": 4, "W8A16": 8}


def dequantize(parts: Mapping[str, Tensor], scheme: str) -> Tensor:
    """The weight that the stored tensors of one linear stand for.

    Args:
        parts: Last part of each tensor's name -> the tensor, as in the file.
        scheme: A name of :data:`workbench.schemes.SCHEMES`.

    Returns:
        float32 ``[out, in]``, the shape of ``nn.Linear.weight``.
    """
    return integers(parts["qweight"], parts["qzeros"], parts["scales"], BITS[scheme])


def integers(qweight: Tensor, qzeros: Tensor, scales: Tensor, bits: int = 4) -> Tensor:
    """(q - zero) * scale, group by group.

    Args:
        qweight: int32 ``[in * bits / 32, out]``, packed along the inputs.
        qzeros: int32 ``[groups, out * bits / 32]``, packed along the outputs.
        scales: float ``[groups, out]``; a group is ``in / groups`` neighbouring inputs.
        bits: 4 or 8.

    Returns:
        float32 ``[out, in]``, the shape of ``nn.Linear.weight``.
    """
    groups, outputs = scales.shape
    values = _unpacked(qweight, bits).transpose(1, 2).reshape(groups, -1, outputs)
    zeros = _unpacked(qzeros, bits).reshape(groups, 1, outputs) + 1
    weight = (values - zeros).float() * scales.float()[:, None]
    return weight.reshape(-1, outputs).t().contiguous()


def _unpacked(words: Tensor, bits: int) -> Tensor:
    """int32 ``[a, b]`` -> int32 ``[a, b, 32 / bits]`` of values 0 to 2**bits - 1."""
    shifts = torch.arange(0, 32, bits, dtype=torch.int32, device=words.device)
    return (words[..., None] >> shifts) & (2**bits - 1)


def relative_error(candidate: Tensor, reference: Tensor) -> float:
    """||candidate - reference|| / ||reference|| in float32; 0 where both are all zero."""
    difference = torch.linalg.vector_norm(candidate.float() - reference.float())
    norm = torch.linalg.vector_norm(reference.float())
    return float(difference / norm) if norm > 0 else float(difference)
