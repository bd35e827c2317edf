"""How far one frame lies beside another."""

from __future__ import annotations

import cv2
import numpy as np

from workbench.eval.optical_flow import gray
from workbench.eval.pictures import refuse_smaller

SIDE = 16  # pixels; smaller frames hold too few frequencies
LEAST = 0.4  # of the peak: 200 unrelated pairs of 48 x 64 stay below 0.37, shifted ones above 0.58
ROUNDS = 2  # of refinement: the first may still be a pixel off in small frames
SEEN = 0.5  # pixels; whether undoing less than that helps, interpolation would decide
NOWHERE = (float("nan"), float("nan"))


def shift_between(reference: np.ndarray, candidate: np.ndarray) -> tuple[float, float]:
    """How far the whole candidate lies to the right of the reference, and below it.

    The peak of the phase correlation of luma under a Hann window (Kuglin and Hines 1975), refined
    to parts of a pixel by OpenCV's ``phaseCorrelate`` (centroid of 5 x 5). Then again where the two
    overlap after whole pixels are taken out, since the window weighs other content in each before.
    Where a subject lies elsewhere before a background that stands still, the peak may be the
    subject's: half a pixel or more only counts where undoing it brings the two closer.

    Args:
        reference: [h, w, 1 or 3], uint8 or float64 from 0 to 1.
        candidate: the same.

    Returns:
        Pixels in x and in y; exactly 0 for identical frames; not a number where no shift explains
        the difference (a peak below 0.4, or undoing it brings the two no closer),
        or where a frame is one colour throughout.

    Raises:
        ComparisonRefused: frames of fewer than 16 pixels a side that are not identical.
    """
    if np.array_equal(reference, candidate):
        return 0.0, 0.0
    refuse_smaller(reference, SIDE, "The shift")
    planes = [gray(frame).astype(np.float64) for frame in (reference, candidate)]
    if not all(np.ptp(plane) for plane in planes):
        return NOWHERE
    x, y, height = _peak(*planes)
    if height < LEAST:
        return NOWHERE
    for _ in range(ROUNDS):
        x, y = _refined(*planes, x, y)
    return (x, y) if max(abs(x), abs(y)) < SEEN or _helps(*planes, x, y) else NOWHERE


def _helps(reference: np.ndarray, candidate: np.ndarray, x: float, y: float) -> bool:
    """Whether the candidate moved back is closer on average, and in more pixels.

    By absolute errors where both overlap, bilinear. A subject of much contrast would carry the
    average alone; pixels of a background that stands still outvote it. Medians are taken away:
    brightness is no shift.
    """
    height, width = reference.shape
    columns, rows = np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32)
    across, down = np.meshgrid(columns + np.float32(x), rows + np.float32(y))
    inside = (across >= 0) & (across <= width - 1) & (down >= 0) & (down <= height - 1)
    if not inside.any():
        return False
    back = cv2.remap(candidate, across, down, cv2.INTER_LINEAR)
    errors = (reference[inside] - one[inside] for one in (back, candidate))
    moved, stayed = (np.abs(error - np.median(error)) for error in errors)
    return bool(moved.mean() < stayed.mean() and np.sign(stayed - moved).sum() > 0)


def _refined(
    reference: np.ndarray, candidate: np.ndarray, x: float, y: float
) -> tuple[float, float]:
    """The shift of what lies in both after whole pixels; as it was where too little does."""
    right, down = round(x), round(y)
    first = reference[_part(-down), _part(-right)]
    second = candidate[_part(down), _part(right)]
    if min(first.shape) < SIDE:
        return x, y
    if np.array_equal(first, second):
        return float(right), float(down)
    more, below, _ = _peak(first, second)
    return right + more, down + below


def _part(cut: int) -> slice:
    """All but the first ``cut``, or but the last ``-cut``."""
    return slice(cut, None) if cut >= 0 else slice(None, cut)


def _peak(reference: np.ndarray, candidate: np.ndarray) -> tuple[float, float, float]:
    """Place of the peak in x and y, and its height; 1 where a shift explains everything."""
    height, width = reference.shape
    window = cv2.createHanningWindow((width, height), cv2.CV_64F)
    # OpenCV pads to sizes that it likes, and is half a pixel off where those are odd
    padding = [(0, 2 * cv2.getOptimalDFTSize((n + 1) // 2) - n) for n in (height, width)]
    planes = [np.pad((p - p.mean()) * window, padding) for p in (reference, candidate)]
    (x, y), response = cv2.phaseCorrelate(*planes)
    return x, y, response
