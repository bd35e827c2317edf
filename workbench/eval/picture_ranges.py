"""What the numbers of a picture mean: which value is black, and which is white."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workbench.errors import ComparisonRefused

STRAY_SHARE = 0.01  # of the values may lie outside the range: the overshoot of a decoder,
STRAY_DISTANCE = 0.5  # and no farther outside than this


class Ranged(NamedTuple):
    """uint8 from 0 to 255, or float64 from 0 to 1, and what it took."""

    pixels: np.ndarray
    notes: tuple[str, ...]
    clamped: int


def ranged(pixels: np.ndarray, role: str, value_range: tuple[float, float] | None) -> Ranged:
    """Bring a picture into a known range.

    Args:
        pixels: [h, w, c] of any real type; uint8 is taken as it is.
        role: ``"reference"`` or ``"candidate"``, for messages.
        value_range: black and white of what is not uint8; None where floats are from 0 to 1.

    Raises:
        ComparisonRefused: NaN or infinity; a range that can be read in two ways; a value_range that
            is none.
    """
    if value_range is not None:
        _refuse_no_range(value_range)
    if pixels.dtype == np.uint8:
        return Ranged(pixels, (), 0)
    if value_range is None and pixels.dtype.kind != "f":
        raise ComparisonRefused(
            f"the {role} holds {pixels.dtype} from {pixels.min()} to {pixels.max()}, and its white "
            "is not known; pass uint8, or value_range=(black, white) such as (0, 255)"
        )
    values = pixels.astype(np.float64)
    _refuse_not_finite(values, role)
    if value_range is not None:
        low, high = value_range
        values = (values - low) / (high - low)
    outside = int(np.count_nonzero((values < 0) | (values > 1)))
    if not outside:
        return Ranged(values, (), 0)
    if value_range is None:
        _refuse_ambiguous(values, outside, role)
    note = (
        f"{outside} of {values.size} values of the {role} lay outside the range "
        f"({pixels.min():.4g} to {pixels.max():.4g}) and were clamped"
    )
    return Ranged(np.clip(values, 0, 1), (note,), outside)


def _refuse_no_range(value_range: tuple[float, float]) -> None:
    low, high = value_range
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ComparisonRefused(
            f"value_range={value_range!r} is no range; pass (black, white) with black < white, "
            "such as (0, 255) or (-1, 1)"
        )


def _refuse_not_finite(values: np.ndarray, role: str) -> None:
    wrong = ~np.isfinite(values)
    if not wrong.any():
        return
    at = tuple(int(i) for i in np.unravel_index(wrong.argmax(), wrong.shape))
    raise ComparisonRefused(
        f"the {role} holds {wrong.sum()} values that are not finite, the first ({values[at]}) at "
        f"row {at[0]}, column {at[1]}, channel {at[2]}; look for an overflow where it was drawn"
    )


def _refuse_ambiguous(values: np.ndarray, outside: int, role: str) -> None:
    low, high = float(values.min()), float(values.max())
    few = outside <= max(1, STRAY_SHARE * values.size)
    if few and low >= -STRAY_DISTANCE and high <= 1 + STRAY_DISTANCE:
        return
    raise ComparisonRefused(
        f"the {role} holds floats from {low:.4g} to {high:.4g}, and floats without a range are "
        "from 0 to 1; pass value_range=(0, 255) or value_range=(-1, 1) to prepare or score"
    )
