"""How far a clip lies beside another, and how that changes from frame to frame."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from workbench.eval.clips import Align, Clips, prepare_clips
from workbench.eval.frame_shift import shift_between
from workbench.eval.temporal import finite_mean

LEAST_FOUND = 0.5  # of the frames that differ; with fewer, a mean would be of the easy ones alone


class ShiftScores(NamedTuple):
    """Of a clip; see :func:`shift_error`, :func:`jitter`."""

    shift_error: float
    jitter: float
    found: float
    """Share of the frames that differ whose shift can be told, 0 to 1; 1 where none differs."""


def shift_error(reference: Any, candidate: Any, *, align: Align | None = None) -> float:
    """Mean over frames of how far the candidate lies beside the reference: of :func:`shifts`.

    Args:
        reference: clip, as :func:`~workbench.eval.clips.prepare_clips` takes it, at least 16
            pixels a side; one frame will do.
        candidate: clip of the same size.
        align: ``"shorter"`` drops the last frames of the longer one.

    Returns:
        Pixels, from 0. Frames whose shift cannot be told are left out; not a number where they are
        more than half of the frames that are not identical.

    Raises:
        ComparisonRefused: as :func:`~workbench.eval.clips.prepare_clips` does; smaller frames.
    """
    clips = prepare_clips(reference, candidate, align=align)
    return shift_scores(clips, shifts(clips)).shift_error


def jitter(reference: Any, candidate: Any, *, align: Align | None = None) -> float:
    """Mean over transitions of the length of the change of :func:`shifts`.

    A candidate that lies beside the reference by the same in every frame has a shift, and no
    jitter.

    Args:
        reference: as of :func:`shift_error`, of 2 frames or more.
        candidate: clip of the same size.
        align: ``"shorter"`` drops the last frames of the longer one.

    Returns:
        Pixels a frame, from 0; not a number where :func:`shift_error` is none, or where no two
        neighbours have a shift.

    Raises:
        ComparisonRefused: as :func:`shift_error` does; one frame.
    """
    clips = prepare_clips(reference, candidate, align=align, least=2)
    return shift_scores(clips, shifts(clips)).jitter


def shifts(clips: Clips) -> np.ndarray:
    """Pixels by which each frame of the candidate lies to the right of the reference's, and below.

    :func:`~workbench.eval.frame_shift.shift_between` of each pair of frames.

    Returns:
        float64 [frames, 2]; not a number where it cannot be told.
    """
    pairs = zip(clips.reference, clips.candidate, strict=True)
    return np.array([shift_between(*pair) for pair in pairs])


def shift_scores(clips: Clips, found: np.ndarray) -> ShiftScores:
    """What the shifts of all frames, [frames, 2], say of the clip."""
    pairs = zip(clips.reference, clips.candidate, strict=True)
    differs = np.array([not np.array_equal(*pair) for pair in pairs])
    told = np.isfinite(found).all(axis=1)[differs]
    share = float(told.mean()) if told.size else 1.0
    if share < LEAST_FOUND:
        return ShiftScores(float("nan"), float("nan"), share)
    moved, changed = np.hypot(*found.T), np.hypot(*np.diff(found, axis=0).T)
    return ShiftScores(finite_mean(moved), finite_mean(changed), share)
