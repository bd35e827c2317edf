"""What two clips do differently from frame to frame: flicker, warping, motion.

Each metric is a number for a clip. What it is at each transition is the function beside it, which
takes clips that :func:`~workbench.eval.clips.prepare_clips` made alike; n frames have n - 1
transitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from workbench.eval.clips import Align, Clips, prepare_clips
from workbench.eval.optical_flow import (
    Motion,
    lengths,
    motions,
    pulled_back,
    unit,
)


class MotionMagnitude(NamedTuple):
    """How far the pixels of two clips move, pixels a frame."""

    reference: float
    candidate: float

    @property
    def ratio(self) -> float:
        """Candidate over reference: 1 where both stand still, infinity where only that one does."""
        if self.reference == self.candidate:
            return 1.0
        return self.candidate / self.reference if self.reference else float("inf")

    @property
    def error(self) -> float:
        """|log2(ratio)|: 0 alike, 1 twice as far or half as far."""
        return float(abs(np.log2(self.ratio))) if self.ratio else float("inf")


def flicker_error(reference: Any, candidate: Any, *, align: Align | None = None) -> float:
    """Mean over transitions of :func:`flicker`: the part of the error that changes in time.

    Kin to dtSSD of Erofeev et al. 2015, https://doi.org/10.5244/C.29.99, with absolute values in
    place of squares.

    Args:
        reference: clip, as :func:`~workbench.eval.clips.prepare_clips` takes it, of 2 frames or
            more.
        candidate: clip of the same size.
        align: ``"shorter"`` drops the last frames of the longer one.

    Returns:
        From 0, identical or off by the same in every frame, to 2, of white.

    Raises:
        ComparisonRefused: as :func:`~workbench.eval.clips.prepare_clips` does; one frame.
    """
    return float(flicker(prepare_clips(reference, candidate, align=align, least=2)).mean())


def flicker(clips: Clips) -> np.ndarray:
    """Mean of |(b' - b) - (a' - a)| over pixels and channels, as a share of white.

    a and a' are neighbouring frames of the reference, b and b' of the candidate.

    Returns:
        float64 [frames - 1].
    """
    kind = np.int16 if clips.data_range == 255 else np.float64
    errors = (b.astype(kind) - a for a, b in zip(clips.reference, clips.candidate, strict=True))
    before = next(errors)
    found = []
    for error in errors:
        found.append(np.abs(error - before).mean(dtype=np.float64) / clips.data_range)
        before = error
    return np.array(found)


def warping_error(reference: Any, candidate: Any, *, align: Align | None = None) -> float:
    """How much worse the candidate follows the reference's motion than the reference does.

    E(candidate) - E(reference) with E of Lai et al. 2018, "Learning Blind Video Temporal
    Consistency", https://arxiv.org/abs/1808.00449: the mean over transitions of :func:`warping`.

    Args:
        reference: clip, as :func:`~workbench.eval.clips.prepare_clips` takes it, of 2 frames or
            more, at least 16 pixels a side.
        candidate: clip of the same size.
        align: ``"shorter"`` drops the last frames of the longer one.

    Returns:
        From -1 to 1, of white squared; exactly 0 for identical clips; below 0 where the candidate
        has less to go wrong, as after a blur; not a number where no motion could be followed.

    Raises:
        ComparisonRefused: as :func:`~workbench.eval.clips.prepare_clips` does; one frame; smaller
            frames.
    """
    clips = prepare_clips(reference, candidate, align=align, least=2)
    return finite_mean(warping(clips, motions(clips.reference)))


def warping(clips: Clips, motion: Sequence[Motion]) -> np.ndarray:
    """Candidate less reference of the mean of (W(x') - x)^2 over matched pixels and channels.

    x and x' are neighbouring frames from 0 to 1. W pulls x' back along the reference's flow.
    Pixels whose flow forwards and back again misses them are left out, in both clips.

    Args:
        clips: Made alike.
        motion: Of the reference, :func:`~workbench.eval.optical_flow.motions`.

    Returns:
        float64 [frames - 1]; not a number where no pixel matches.
    """
    own, other = (_unwarped(clip, motion) for clip in (clips.reference, clips.candidate))
    return other - own


def motion_magnitude(
    reference: Any, candidate: Any, *, align: Align | None = None
) -> MotionMagnitude:
    """Mean length of each clip's own optical flow, and their ratio.

    Args:
        reference: clip, as :func:`~workbench.eval.clips.prepare_clips` takes it, of 2 frames or
            more, at least 16 pixels a side.
        candidate: clip of the same size.
        align: ``"shorter"`` drops the last frames of the longer one.

    Returns:
        Pixels a frame, over all pixels and transitions; exactly 0 for a still clip.

    Raises:
        ComparisonRefused: as :func:`warping_error` does.
    """
    clips = prepare_clips(reference, candidate, align=align, least=2)
    return MotionMagnitude(*(float(lengths(c).mean()) for c in (clips.reference, clips.candidate)))


def motion_error(reference: Any, candidate: Any, *, align: Align | None = None) -> float:
    """|log2(candidate / reference)| of :func:`motion_magnitude`, whose arguments it takes.

    Returns:
        From 0, the same motion; 1 is twice or half of it; infinity where one of them stands still.
    """
    return motion_magnitude(reference, candidate, align=align).error


def temporal_flickering(clip: Any) -> float:
    """VBench's dimension of this name, of one clip: 1 less the mean of |a' - a| / white.

    Huang et al. 2024, https://arxiv.org/abs/2311.17982. VBench takes it of clips that should stand
    still; where things move, their motion counts as flicker.

    Args:
        clip: as :func:`~workbench.eval.clips.prepare_clips` takes it, of 2 frames or more.

    Returns:
        From 0 to 1, no change at all.

    Raises:
        ComparisonRefused: as :func:`~workbench.eval.clips.prepare_clips` does; one frame.
    """
    clips = prepare_clips(clip, clip, least=2)
    return steadiness(clips.reference, clips.data_range)


def steadiness(clip: np.ndarray, white: float) -> float:
    """:func:`temporal_flickering` of [frames, h, w, c]."""
    kind = np.int16 if white == 255 else np.float64  # a quarter of the time, and the same sum
    changes = [np.abs(b.astype(kind) - a).mean(dtype=np.float64) for a, b in pairwise(clip)]
    return float(1 - np.mean(changes) / white)


def finite_mean(values: np.ndarray) -> float:
    """Mean of the finite values; not a number where there is none."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else float("nan")


def _unwarped(clip: np.ndarray, motion: Sequence[Motion]) -> np.ndarray:
    """E of Lai et al. 2018, at each transition."""
    found = []
    for now, following, moved in zip(clip[:-1], clip[1:], motion, strict=True):
        back = pulled_back(unit(following), moved.flow).reshape(now.shape)
        gap = np.square(back - unit(now))[moved.matched]
        found.append(gap.mean(dtype=np.float64) if gap.size else float("nan"))
    return np.array(found)
