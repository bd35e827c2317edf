"""How pixels move from one frame to the next."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import cv2
import numpy as np

from workbench.eval.pictures import refuse_smaller, rgb

SIDE = 16  # pixels; the search for patches needs 12
RELATIVE, ABSOLUTE = 0.01, 0.5  # of the check forward and back: Ruder et al. 2016


class Motion(NamedTuple):
    """From one frame to the next, in pixels of the first."""

    flow: np.ndarray
    """float32 [h, w, 2]: how far each pixel goes to the right and down."""
    back: np.ndarray
    """The same from the next frame to this one, in pixels of the next."""
    matched: np.ndarray
    """bool [h, w]: pixels that are found again, neither covered nor out of the frame."""


def motions(clip: np.ndarray) -> list[Motion]:
    """The motion of a clip, forwards, backwards, and where the two agree.

    Args:
        clip: [frames, h, w, 1 or 3], uint8 or float64 from 0 to 1, at least 16 pixels a side.

    Returns:
        One a transition, frames - 1.

    Raises:
        ComparisonRefused: smaller frames.
    """
    planes = _planes(clip)
    found = []
    for now, following in pairwise(planes):
        forward, back = flow_between(now, following), flow_between(following, now)
        found.append(Motion(forward, back, _matched(forward, back)))
    return found


def lengths(clip: np.ndarray) -> np.ndarray:
    """Mean length of the flow, pixels a frame, [frames - 1]; ``clip`` as of :func:`motions`."""
    return np.array([mean_length(flow_between(*pair)) for pair in pairwise(_planes(clip))])


def mean_length(flow: np.ndarray) -> float:
    """Mean over [h, w] of the length of [h, w, 2]."""
    return float(np.hypot(flow[..., 0], flow[..., 1]).mean(dtype=np.float64))


def flow_between(now: np.ndarray, following: np.ndarray) -> np.ndarray:
    """Dense inverse search, Kroeger et al. 2016, https://doi.org/10.1007/978-3-319-46493-0_29.

    OpenCV's ``DISOpticalFlow`` with its preset MEDIUM: the same bits with any number of threads.

    Args:
        now: uint8 [h, w].
        following: uint8 [h, w].

    Returns:
        float32 [h, w, 2]: ``now[y, x]`` is found at ``following[y + flow[1], x + flow[0]]``.
    """
    search = cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    return search.calc(now, following, None)


def pulled_back(following: np.ndarray, flow: np.ndarray) -> np.ndarray:
    """``following`` seen from the frame that ``flow`` starts in; bilinear, float32.

    Args:
        following: [h, w] or [h, w, c], float32.
        flow: [h, w, 2].
    """
    x, y = _targets(flow)
    return cv2.remap(following, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


def gray(frame: np.ndarray) -> np.ndarray:
    """Luma of Rec. 601, float32 [h, w] from 0 to 1, of uint8 or float64 [h, w, 1 or 3]."""
    return cv2.cvtColor(rgb(unit(frame)), cv2.COLOR_RGB2GRAY)


def unit(frame: np.ndarray) -> np.ndarray:
    """float32 from 0 to 1 of uint8 or float64."""
    white = np.float32(255 if frame.dtype == np.uint8 else 1)
    return frame.astype(np.float32) / white


def _planes(clip: np.ndarray) -> list[np.ndarray]:
    refuse_smaller(clip[0], SIDE, "Optical flow")
    return [np.rint(gray(frame) * 255).astype(np.uint8) for frame in clip]


def _matched(forward: np.ndarray, back: np.ndarray) -> np.ndarray:
    """Where forward and back again returns; Ruder et al. 2016, https://arxiv.org/abs/1604.08610."""
    returned = pulled_back(back, forward)
    gap, there, again = (np.square(f).sum(2) for f in (forward + returned, forward, returned))
    height, width = gap.shape
    x, y = _targets(forward)
    inside = (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)
    return inside & (gap <= RELATIVE * (there + again) + ABSOLUTE)


def _targets(flow: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    height, width = flow.shape[:2]
    y, x = np.mgrid[:height, :width].astype(np.float32)
    return x + flow[..., 0], y + flow[..., 1]
