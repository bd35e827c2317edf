"""Counts of values that no scale may have, from the bytes of the tensor.

Formats: OCP 8-bit floating point 1.0 (E4M3: 0x7F and 0xFF are NaN, there is no infinity, 0x7E is
448) and OCP microscaling 1.0 (E8M0: 0xFF is NaN, every other byte a power of two).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_E4M3_MAGNITUDE, _E4M3_NAN = 0x7F, 0x7F
_E8M0_NAN = 0xFF
_PIECE = 1 << 18  # bytes at a time, so that they stay in the processor's cache


@dataclass(frozen=True, slots=True)
class Counts:
    """How many of a tensor's values are what."""

    total: int
    nan: int = 0
    infinite: int = 0
    zero: int = 0
    negative: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.total + other.total,
            self.nan + other.nan,
            self.infinite + other.infinite,
            self.zero + other.zero,
            self.negative + other.negative,
        )


def count(data: np.ndarray, dtype: str) -> Counts | None:
    """Count bad values of a scale tensor; None for a dtype that holds no scales.

    Args:
        data: uint8, the tensor's bytes.
        dtype: By safetensors' name; U8 is read as E8M0, as MXFP8 and MXFP4 store it.
    """
    if dtype not in ("F8_E4M3", "U8", "F8_E8M0", *_FLOATS):
        return None
    pieces = (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))
    return sum((_piece(piece, dtype) for piece in pieces), Counts(0))


def _piece(data: np.ndarray, dtype: str) -> Counts:
    if dtype == "F8_E4M3":
        return _e4m3(data)
    if dtype in ("U8", "F8_E8M0"):
        return Counts(len(data), nan=int(np.count_nonzero(data == _E8M0_NAN)))
    word, exponent, mantissa = _FLOATS[dtype]
    return _floats(data.view(word), exponent, mantissa)


_FLOATS = {
    "F16": (np.uint16, 0x7C00, 0x03FF),
    "BF16": (np.uint16, 0x7F80, 0x007F),
    "F32": (np.uint32, 0x7F800000, 0x007FFFFF),
}
"""Unsigned integer of the same width, bits of its exponent and of its mantissa."""


def _e4m3(data: np.ndarray) -> Counts:
    magnitude = data & _E4M3_MAGNITUDE
    nan = int(np.count_nonzero(magnitude == _E4M3_NAN)) if magnitude.max() == _E4M3_NAN else 0
    zero = int(np.count_nonzero(magnitude == 0)) if magnitude.min() == 0 else 0
    signed = data.max() > 0x80
    negative = int(np.count_nonzero((data > 0x80) & (data != 0xFF))) if signed else 0
    return Counts(len(data), nan=nan, zero=zero, negative=negative)


def _floats(words: np.ndarray, exponent: int, mantissa: int) -> Counts:
    """Screens by extremes first, which is many times faster than counting."""
    word = words.dtype.type
    special = words & word(exponent)
    nan = infinite = 0
    if special.max() == exponent:
        odd = words[special == exponent]
        nan = int(np.count_nonzero(odd & word(mantissa)))
        infinite = len(odd) - nan
    magnitude = words & word(exponent | mantissa)
    zero = int(np.count_nonzero(magnitude == 0)) if magnitude.min() == 0 else 0
    top = word(1 << (words.dtype.itemsize * 8 - 1))
    negative = int(np.count_nonzero(words > top)) if words.max() > top else 0
    return Counts(len(words), nan=nan, infinite=infinite, zero=zero, negative=negative)
