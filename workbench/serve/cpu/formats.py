"""Number formats in plain torch: what a stored weight means, how an input is rounded.

Everything is float32 and runs on any device, so that a GPU kernel can be held against it.
"""

from __future__ import annotations

import torch

E4M3 = torch.float8_e4m3fn
E4M3_MAX = torch.finfo(E4M3).max
E2M1_MAX = 6.0
E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
E8M0_BIAS = 127
SMALLEST_SCALE = 1e-12  # an all-zero tensor quantizes to zeros, not to NaN
NVFP4_BLOCK, MX_BLOCK = 16, 32


def to_e4m3(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """``values / scale`` in FP8 E4M3, saturated at +-448; ``scale`` is broadcast."""
    return (values.float() / scale).clamp(-E4M3_MAX, E4M3_MAX).to(E4M3)


def round_e2m1(values: torch.Tensor) -> torch.Tensor:
    """The nearest value of FP4 E2M1, ties to even, saturated at +-6; any shape, as float32."""
    size = values.abs()
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    return (torch.round(values / step) * step).clamp(-E2M1_MAX, E2M1_MAX)


def unpack_e2m1(packed: torch.Tensor) -> torch.Tensor:
    """Pairs in bytes [..., n] to float32 [..., 2 n]; the low half of a byte comes first."""
    codes = torch.stack((packed & 0xF, packed >> 4), dim=-1).flatten(-2)
    table = torch.tensor(E2M1_VALUES + tuple(-v for v in E2M1_VALUES), device=packed.device)
    return table[codes.long()]


def from_e8m0(exponents: torch.Tensor) -> torch.Tensor:
    """Bytes to powers of two, float32; OCP Microscaling Formats 1.0, section 5.4.1."""
    return torch.exp2(exponents.float() - E8M0_BIAS)


def nvfp4_weight(
    packed: torch.Tensor, block_scale: torch.Tensor, scale: torch.Tensor
) -> torch.Tensor:
    """NVFP4 weight as float32 [out, in].

    Args:
        packed: Pairs of E2M1, uint8 [out, in / 2].
        block_scale: E4M3 [out, in / 16].
        scale: One float32 for the whole weight.
    """
    blocks = _blocks(unpack_e2m1(packed), NVFP4_BLOCK)
    return (blocks * (block_scale.float() * scale.float()).unsqueeze(-1)).flatten(-2)


def nvfp4_rounded(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """An input as NVFP4 sees it: E2M1 with an E4M3 scale per 16 channels, float32 [..., in].

    The E4M3 scale is max|x| / 6 in units of ``scale``, the calibrated one; as
    ``ref_nvfp4_quant`` of vLLM 0.30.0 defines it. A block whose scale rounds to 0 becomes 0.
    """
    blocks = _blocks(x.float(), NVFP4_BLOCK)
    largest = blocks.abs().amax(-1, keepdim=True)
    steps = to_e4m3(largest / E2M1_MAX, scale.float()).float() * scale.float()
    quotients = torch.where(steps == 0, 0.0, blocks / steps)
    return (round_e2m1(quotients) * steps).flatten(-2)


def mxfp8_weight(values: torch.Tensor, exponents: torch.Tensor) -> torch.Tensor:
    """MXFP8 weight, E4M3 [out, in] with E8M0 bytes [out, in / 32], as float32 [out, in]."""
    blocks = _blocks(values.float(), MX_BLOCK)
    return (blocks * from_e8m0(exponents).unsqueeze(-1)).flatten(-2)


def mxfp8_rounded(x: torch.Tensor) -> torch.Tensor:
    """An input as MXFP8 sees it: E4M3 with a power of two per 32 channels, float32 [..., in].

    The power is the least that keeps the block within 448: the rule of vLLM 0.30.0
    (``mxfp8_utils.py``) and of NVIDIA's kernels, where OCP's own rounds down and saturates.
    """
    blocks = _blocks(x.float(), MX_BLOCK)
    largest = blocks.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
    mantissa, exponent = torch.frexp(largest / E4M3_MAX)  # mantissa in [0.5, 1)
    exponent = torch.where(mantissa == 0.5, exponent - 1, exponent).clamp(min=-E8M0_BIAS)
    scale = torch.exp2(exponent.float())
    return (to_e4m3(blocks, scale).float() * scale).flatten(-2)


def mxfp4_weight(packed: torch.Tensor, exponents: torch.Tensor) -> torch.Tensor:
    """MXFP4 weight, uint8 pairs [out, in / 2] with E8M0 bytes [out, in / 32], as [out, in]."""
    blocks = _blocks(unpack_e2m1(packed), MX_BLOCK)
    return (blocks * from_e8m0(exponents).unsqueeze(-1)).flatten(-2)


def mxfp4_rounded(x: torch.Tensor) -> torch.Tensor:
    """An input as MXFP4 sees it: E2M1 with a power of two per 32 channels, float32 [..., in].

    The power is floor(log2 max|x|) - 2, 2 being the largest exponent of E2M1; what lies beyond
    6 saturates: OCP Microscaling Formats 1.0, section 6.3.
    """
    blocks = _blocks(x.float(), MX_BLOCK)
    largest = blocks.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
    _, exponent = torch.frexp(largest)  # floor(log2) is one less: the mantissa is below 1
    scale = torch.exp2((exponent - 3).clamp(min=-E8M0_BIAS).float())
    return (round_e2m1(blocks / scale) * scale).flatten(-2)


def integer_weight(packed: torch.Tensor, scales: torch.Tensor, bits: int) -> torch.Tensor:
    """Symmetric integers of GPTQ's layout as float32 [in, out].

    Args:
        packed: int32 [in * bits / 32, out], the first input channel in the lowest bits.
        scales: [in / group, out], any float.
        bits: 4 or 8; the zero point is the middle, 2 ** (bits - 1).
    """
    shifts = torch.arange(0, 32, bits, dtype=torch.int32, device=packed.device).view(1, -1, 1)
    codes = ((packed.unsqueeze(1) >> shifts) & (2**bits - 1)).flatten(0, 1)  # [in, out]
    groups = (codes - 2 ** (bits - 1)).float().unflatten(0, (scales.shape[0], -1))
    return (groups * scales.float().unsqueeze(1)).flatten(0, 1)


def product(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, dtype: torch.dtype
) -> torch.Tensor:
    """``x`` [..., in] times ``weight`` [in, out] summed in float32, plus bias, as ``dtype``."""
    result = x.float() @ weight
    return (result if bias is None else result + bias.float()).to(dtype)


def _blocks(values: torch.Tensor, size: int) -> torch.Tensor:
    return values.unflatten(-1, (-1, size))
