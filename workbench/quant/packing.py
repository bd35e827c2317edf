"""The stored tensors of one linear, turned back into numbers.

``auto_round:auto_gptq`` packs integers into int32 words, the lowest bits first, and stores zero
points minus one, as GPTQ does (https://github.com/AutoGPTQ/AutoGPTQ).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from workbench.errors import QuantizationFailed
from workbench.quant.numerics import e8m0, unpack_e2m1
from workbench.schemes import SCHEMES

BITS = {"W4A16": 4, "W8A16": 8}


def dequantize(parts: Mapping[str, Tensor], scheme: str) -> Tensor:
    """The weight that the stored tensors of one linear stand for.

    Args:
        parts: Last part of each tensor's name -> the tensor, as in the file.
        scheme: A name of :data:`workbench.schemes.SCHEMES`.

    Returns:
        float32 ``[out, in]``, the shape of ``nn.Linear.weight``.

    Raises:
        QuantizationFailed: an unknown scheme, or a tensor of it is missing.
    """
    if scheme not in SCHEMES:
        raise QuantizationFailed(f"no stored layout {scheme!r}; there are {', '.join(SCHEMES)}")
    needed = {SCHEMES[scheme].weight, *SCHEMES[scheme].scales}
    if missing := sorted(needed - set(parts)):
        raise QuantizationFailed(f"{scheme} without {', '.join(missing)}; got {sorted(parts)}")
    if scheme in BITS:
        return integers(parts["qweight"], parts["qzeros"], parts["scales"], BITS[scheme])
    scale = parts["weight_scale"]
    if scheme == "NVFP4":
        scale = scale.float() * parts["weight_scale_2"].float()
        return _scaled(unpack_e2m1(parts["weight"]), scale)
    if scheme == "MXFP4":
        return _scaled(unpack_e2m1(parts["weight_packed"]), e8m0(scale))
    if scheme == "MXFP8":
        return _scaled(parts["weight"].float(), e8m0(scale))
    return parts["weight"].float() * (scale.reshape(-1, 1) if scale.numel() > 1 else scale)


def _scaled(values: Tensor, scale: Tensor) -> Tensor:
    """Values [out, in] times scales [out, in / block]."""
    return (values.unflatten(-1, (scale.shape[-1], -1)) * scale[..., None]).flatten(-2)


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
