"""Layouts that fit: what to use instead of one that needs more devices than there are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from workbench.specs import Parallelism

_SIZES = ("tensor_parallel_size", "ulysses_degree", "cfg_parallel_size", "ring_degree")
_MOST = 3


def describe(layout: Parallelism) -> str:
    """The sizes above 1, as they are passed: ``tensor_parallel_size=2 x cfg_parallel_size=2``."""
    sizes = ((name, getattr(layout, name)) for name in (*_SIZES, "vae_patch_parallel_size"))
    named = [f"{name}={size}" for name, size in sizes if size > 1]
    return " x ".join(named) or "a single device"


def fitting(asked: Parallelism, devices: int, heads: Sequence[int]) -> list[Parallelism]:
    """Up to three layouts within a number of devices, those that use most of them first.

    No size is above the one asked for, and each divides it and the attention heads; the single
    device always fits.

    Args:
        asked: The layout that does not fit.
        devices: How many there are, 1 or more.
        heads: Attention heads of each transformer.
    """
    choices = [
        [n for n in range(1, getattr(asked, name) + 1) if getattr(asked, name) % n == 0]
        for name in _SIZES
    ]
    layouts = [
        asked.but(**dict(zip(_SIZES, sizes, strict=True)), vae_patch_parallel_size=1)
        for sizes in product(*choices)
    ]
    fit = [one for one in layouts if one.world_size <= devices and _shares(one, heads)]
    return sorted(fit, key=lambda layout: -layout.world_size)[:_MOST]


def _shares(layout: Parallelism, heads: Sequence[int]) -> bool:
    """Whether every rank gets as many whole heads as the others."""
    return all(n % (layout.tensor_parallel_size * layout.ulysses_degree) == 0 for n in heads)
