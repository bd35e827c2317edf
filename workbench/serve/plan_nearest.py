"""The valid layout of the closest sizes: what to take instead of one that is not valid."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import log

from workbench.specs import Parallelism

SIZES = (
    "tensor_parallel_size",
    "ulysses_degree",
    "ring_degree",
    "cfg_parallel_size",
    "vae_patch_parallel_size",
)
Ranks = tuple[int, ...]
"""The sizes but the patches, of which a layout of many ranks can have many."""

_Row = tuple[float, int, int, int, float, Ranks]
"""Distance to nine digits, ties after it, the distance itself, and the layout."""


class Choices:
    """The valid layouts, asked for the nearest one.

    Layouts that differ in their patches alone count as one, with 1 to so many patches: of 64
    devices there are a thousand, and 40000 layouts that ask.
    """

    def __init__(self) -> None:
        self._with_patches: dict[tuple[int, ...], Parallelism] = {}
        self._most: dict[Ranks, int] = {}
        self._of_ranks = cache(self._closest_of_each_size)

    def add(self, layout: Parallelism) -> None:
        """One more; all come before the first question, patches from 1 up."""
        sizes = sizes_of(layout)
        self._with_patches[sizes] = layout
        self._most[sizes[:-1]] = sizes[-1]

    def __iter__(self) -> Iterator[Parallelism]:
        return iter(self._with_patches.values())

    def nearest(self, asked: Parallelism) -> Parallelism | None:
        """The valid layout of the closest sizes, if any.

        Closest by the sum of the ratios' logarithms; of two as close the one of more devices.
        """
        *ranks, patches = sizes_of(asked)
        found = [
            (round(far + abs(log(patches / min(patches, self._most[one]))), 9), *tie, one)
            for _, *tie, far, one in self._of_ranks(tuple(ranks))
        ]
        if not found:
            return None
        *_, one = min(found)
        return self._with_patches[*one, min(patches, self._most[one])]

    def _closest_of_each_size(self, asked: Ranks) -> list[_Row]:
        """For each number of patches at most the closest: patches make no other difference."""
        best: dict[tuple[int, int], _Row] = {}
        for place, (one, most) in enumerate(self._most.items()):
            far = sum(abs(log(a / b)) for a, b in zip(asked, one, strict=True))
            size = _product(one)
            row = (round(far, 9), -size, one[0], place, far, one)
            best[size, most] = min(row, best.get((size, most), row))
        return list(best.values())


def sizes_of(layout: Parallelism) -> tuple[int, ...]:
    """Its sizes, in the order of SIZES."""
    return tuple(getattr(layout, name) for name in SIZES)


def _product(ranks: Ranks) -> int:
    tensor, ulysses, ring, branches = ranks
    return tensor * ulysses * ring * branches
