"""The schemes of ModelOpt as the engine computes them, for measuring what each costs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from workbench.quant import numerics
from workbench.quant.sensitivity import Fake


def _largest(weights: Sequence[Tensor]) -> Tensor:
    """Of all linears that the engine fuses, which share a scale."""
    return torch.stack([weight.abs().amax().float() for weight in weights]).max()


FAKES = {
    "FP8": Fake(
        weights=lambda weights: [numerics.fp8(one, _largest(weights)) for one in weights],
        inputs=numerics.fp8,
    ),
    "FP8_PER_CHANNEL_PER_TOKEN": Fake(
        weights=lambda weights: [numerics.fp8_rows(one) for one in weights],
        inputs=lambda values, _: numerics.fp8_rows(values),
    ),
    "NVFP4": Fake(
        weights=lambda weights: [numerics.nvfp4(one, _largest(weights)) for one in weights],
        inputs=numerics.nvfp4,
    ),
    "MXFP8": Fake(
        weights=lambda weights: [numerics.mxfp8(one) for one in weights],
        inputs=lambda values, _: numerics.mxfp8(values),
    ),
}
"""Scheme -> its numerics; static ones take the amax of calibration."""
