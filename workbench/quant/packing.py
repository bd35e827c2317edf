"""The tensors that ``auto_round:auto_gptq`` writes for one linear, turned back into numbers.

Eight 4-bit values share an int32, the lowest bits first. Zero points are stored minus one, as
GPTQ does (https://github.com/AutoGPTQ/AutoGPTQ).
"""

from __future__ import annotations

import torch
from torch import Tensor

BITS = 4
PER_WORD = 32 // BITS
PARTS = ("qweight", "qzeros", "scales")


def dequantize(qweight: Tensor, qzeros: Tensor, scales: Tensor) -> Tensor:
    """(q - zero) * scale, group by group.

    Args:
        qweight: int32 ``[in / 8, out]``, packed along the inputs.
        qzeros: int32 ``[groups, out / 8]``, packed along the outputs.
        scales: float ``[groups, out]``; a group is ``in / groups`` neighbouring inputs.

    Returns:
        float32 ``[out, in]``, the shape of ``nn.Linear.weight``.
    """
    groups, outputs = scales.shape
    values = _nibbles(qweight).transpose(1, 2).reshape(groups, -1, outputs)
    zeros = _nibbles(qzeros).reshape(groups, 1, outputs) + 1
    weight = (values - zeros).float() * scales.float()[:, None]
    return weight.reshape(-1, outputs).t().contiguous()


def _nibbles(words: Tensor) -> Tensor:
    """int32 ``[a, b]`` -> int32 ``[a, b, 8]`` of values 0 to 15."""
    shifts = torch.arange(0, 32, BITS, dtype=torch.int32, device=words.device)
    return (words[..., None] >> shifts) & (2**BITS - 1)


def relative_error(candidate: Tensor, reference: Tensor) -> float:
    """||candidate - reference|| / ||reference|| in float32; 0 where both are all zero."""
    difference = torch.linalg.vector_norm(candidate.float() - reference.float())
    norm = torch.linalg.vector_norm(reference.float())
    return float(difference / norm) if norm > 0 else float(difference)
