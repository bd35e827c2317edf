"""The engine's warm-up request on a CPU: small, since no kernel is tuned and no graph captured.

vLLM-Omni 0.30.0 draws 512 x 512 pixels in two steps at every start, which takes a CPU without BF16
arithmetic up to minutes in a video model's VAE. What is drawn afterwards is the same.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from vllm_omni.diffusion.diffusion_engine import DiffusionEngine

SIDE = 64  # pixels: a multiple of what every family's VAE and patches need


def register() -> None:
    """Draw the warm-up at ``SIDE`` pixels."""
    stock = DiffusionEngine._make_dummy_request
    if not hasattr(stock, "__wrapped__"):
        DiffusionEngine._make_dummy_request = _small(stock)


def _small(make: Any) -> Any:
    @wraps(make)
    def small(engine: DiffusionEngine, *, height: int, width: int, **named: Any) -> Any:
        return make(engine, height=min(height, SIDE), width=min(width, SIDE), **named)

    return small
