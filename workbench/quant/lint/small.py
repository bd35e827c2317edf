"""Bytes of small tensors, read by their place in the file; a budget bounds what is read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workbench.zoo.weights import TensorFacts

DEFAULT_BYTES = 2 << 30
"""All block scales of a 20-billion-parameter NVFP4 transformer fit."""
_WINDOWS = 16  # evenly spaced parts of a tensor of which not all is read
_DTYPES = {
    "F32": np.float32,
    "F16": np.float16,
    "I32": np.int32,
    "U32": np.uint32,
    "F64": np.float64,
}


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes of one tensor, or evenly spaced parts of them."""

    name: str
    facts: TensorFacts
    data: np.ndarray
    """uint8; a view that is written over when the next tensor is read."""

    @property
    def whole(self) -> bool:
        """Whether all of it was read."""
        return len(self.data) == self.facts.nbytes


def read_small(
    tensors: Mapping[str, TensorFacts], names: Iterable[str], budget: int
) -> Iterator[Raw]:
    """Read tensors, smallest first and whole as long as the budget lasts, then in parts.

    Args:
        tensors: All tensors of the component.
        names: Those to read.
        budget: Bytes to read in all.
    """
    order = sorted(names, key=lambda name: tensors[name].nbytes)
    left = budget
    with _Files() as files:
        for position, name in enumerate(order):
            facts = tensors[name]
            fair = max(left, 0) // (len(order) - position)
            wanted = facts.nbytes if facts.nbytes <= max(fair, 4096) else fair
            data = files.read(facts, wanted)
            left -= len(data)
            yield Raw(name, facts, data)


def values(raw: Raw) -> np.ndarray:
    """float64 values of a tensor that was read whole; empty if numpy has no such dtype."""
    if raw.facts.dtype == "BF16":
        words = raw.data.view(np.uint16).astype(np.uint32) << 16
        return words.view(np.float32).astype(np.float64)
    dtype = _DTYPES.get(raw.facts.dtype)
    return np.empty(0) if dtype is None else raw.data.view(dtype).astype(np.float64)


class _Files:
    """Open files of a component, by path."""

    def __init__(self) -> None:
        self.open: dict[Path, int] = {}
        self.buffer = np.empty(1 << 20, np.uint8)

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self.open.values():
            os.close(descriptor)

    def read(self, facts: TensorFacts, wanted: int) -> np.ndarray:
        with suppress(OSError):  # unreadable files are findings already
            if facts.file not in self.open:
                self.open[facts.file] = os.open(facts.file, os.O_RDONLY)
            if len(self.buffer) < min(wanted, facts.nbytes) + 8 * _WINDOWS:
                self.buffer = np.empty(2 * wanted + 8 * _WINDOWS, np.uint8)
            end = 0
            for at, size in _windows(facts, wanted):
                end += os.preadv(self.open[facts.file], [self.buffer[end : end + size]], at)
            return self.buffer[: end if end == facts.nbytes else end // 8 * 8]
        return np.empty(0, np.uint8)


def _windows(facts: TensorFacts, wanted: int) -> Iterator[tuple[int, int]]:
    if wanted >= facts.nbytes:
        yield facts.start, facts.nbytes
        return
    size = max(wanted // _WINDOWS // 8 * 8, 8)
    for index in range(_WINDOWS):
        at = (facts.nbytes - size) * index // (_WINDOWS - 1) // 8 * 8
        yield facts.start + at, size
