"""Reference numerics of the float formats: what a tensor becomes in each, in plain torch.

E2M1 and E4M3 round to nearest, ties to even, and saturate. E8M0 scales are powers of two. NVFP4:
blocks of 16 with an E4M3 scale, and one float32 scale for all (modelopt 0.47.0,
quantization/qtensor/nvfp4_tensor.py); MXFP8: blocks of 32 with an E8M0 scale
(https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf).
"""

from __future__ import annotations

import torch
from torch import Tensor

E4M3_MAX, E2M1_MAX = 448.0, 6.0
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Values of the codes 0 to 7; bit 3 is the sign."""
_BIAS = 127  # of E8M0
_SMALLEST = 2.0**-9  # of E4M3, so that no block scale becomes zero
_TINY = 2.0**-100


def e4m3(values: Tensor) -> Tensor:
    """Rounded to E4M3, any shape, in float32; beyond 448 it saturates."""
    return values.float().clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn).float()


def e2m1(values: Tensor) -> Tensor:
    """Rounded to E2M1, any shape, in float32; beyond 6 it saturates."""
    size = values.float().abs().clamp_max(E2M1_MAX)
    # Steps are 0.5 below 2, 1 below 4, then 2; torch.round takes ties to even, and in each of the
    # three ranges the even multiples are the codes with an even last bit.
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    return (size / step).round() * step * values.float().sign()


def fp8(values: Tensor, amax: Tensor | float) -> Tensor:
    """E4M3 with the scale amax / 448, one for all or broadcast; float32 of the same shape."""
    scale = torch.as_tensor(amax, dtype=torch.float32, device=values.device) / E4M3_MAX
    scale = scale.clamp_min(_TINY)
    return e4m3(values.float() / scale) * scale


def fp8_rows(values: Tensor) -> Tensor:
    """E4M3 with a scale for each row of the last axis: a token, or an output channel."""
    return fp8(values, values.float().abs().amax(-1, keepdim=True))


def nvfp4(values: Tensor, amax: Tensor | float) -> Tensor:
    """NVFP4 with the whole scale amax / (6 * 448); float32 of the same shape.

    Args:
        values: [..., k], k a multiple of 16.
        amax: Largest absolute value that the whole scale reaches; blocks beyond it saturate.
    """
    whole = torch.as_tensor(amax, dtype=torch.float32, device=values.device)
    whole = (whole / (E2M1_MAX * E4M3_MAX)).clamp_min(_TINY)
    blocks = values.float().unflatten(-1, (-1, 16))
    wanted = blocks.abs().amax(-1, keepdim=True) / (E2M1_MAX * whole)
    scale = e4m3(wanted.clamp_min(_SMALLEST)) * whole
    return (e2m1(blocks / scale) * scale).flatten(-2)


def mxfp8(values: Tensor) -> Tensor:
    """MXFP8, [..., k] with k a multiple of 32; float32 of the same shape."""
    blocks = values.float().unflatten(-1, (-1, 32))
    scale = _power_of_two(blocks.abs().amax(-1, keepdim=True) / E4M3_MAX)
    return (e4m3(blocks / scale) * scale).flatten(-2)


def _power_of_two(scale: Tensor) -> Tensor:
    """The least power of two at or above, within E8M0."""
    exponent = torch.ceil(torch.log2(scale.clamp_min(_TINY)))
    return torch.exp2(exponent.clamp(-_BIAS, _BIAS))


def e8m0(stored: Tensor) -> Tensor:
    """Powers of two of stored E8M0 bytes, uint8 of any shape -> float32; 255 gives NaN."""
    values = torch.exp2(stored.float() - _BIAS)
    return torch.where(stored == 255, torch.full_like(values, float("nan")), values)


def unpack_e2m1(packed: Tensor) -> Tensor:
    """Values of packed pairs, the lower four bits first: uint8 [..., k / 2] -> float32 [..., k]."""
    table = torch.tensor([*E2M1, *(-value for value in E2M1)], device=packed.device)
    pairs = torch.stack((packed & 15, packed >> 4), -1).flatten(-2)
    return table[pairs.long()]
