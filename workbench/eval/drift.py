"""How far the looks of the moving part, and of the rest, go from the first frame.

The looks are four histograms made by hand, without learned weights: what VBench asks a network for
is asked here of colours and edges, so the numbers are others and have names of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from workbench.eval.clips import Align, Clips, prepare_clips
from workbench.eval.optical_flow import Motion, motions, unit
from workbench.eval.pictures import rgb
from workbench.eval.temporal import finite_mean

MOVING = 0.5  # pixels a frame, against the middle of all pixels: a pan moves nothing
LEAST = 0.005  # of the frame; a smaller part has no looks to speak of
EDGES, COLOURS = 9, 16  # bins: Dalal and Triggs 2005, section 6.3; ours
LAB = ((0.0, 100.0), (-128.0, 128.0), (-128.0, 128.0))  # from the first to the last bin


def subject_drift(reference: Any, candidate: Any, *, align: Align | None = None) -> float:
    """How much more the moving part drifts in the candidate: the mean of :func:`drifts`.

    Ours. Near to VBench's subject consistency, which takes DINO's features: not the same number.

    Args:
        reference: clip, as :func:`~workbench.eval.clips.prepare_clips` takes it, of 2 frames or
            more, at least 16 pixels a side.
        candidate: clip of the same size.
        align: ``"shorter"`` drops the last frames of the longer one.

    Returns:
        From -1 to 1; exactly 0 for identical clips; above 0 where the candidate drifts more; not a
        number where nothing moves.

    Raises:
        ComparisonRefused: as :func:`~workbench.eval.clips.prepare_clips` does; one frame; smaller
            frames.
    """
    clips = prepare_clips(reference, candidate, align=align, least=2)
    return finite_mean(drifts(clips, motions(clips.reference))[0])


def background_drift(reference: Any, candidate: Any, *, align: Align | None = None) -> float:
    """How much more all but the moving part drifts in the candidate; as :func:`subject_drift`.

    Ours. Near to VBench's background consistency, which takes CLIP's features of the whole frame:
    not the same number.

    Args:
        reference: as of :func:`subject_drift`.
        candidate: clip of the same size.
        align: ``"shorter"`` drops the last frames of the longer one.

    Returns:
        As :func:`subject_drift`; not a number where everything moves.

    Raises:
        ComparisonRefused: as :func:`subject_drift` does.
    """
    clips = prepare_clips(reference, candidate, align=align, least=2)
    return finite_mean(drifts(clips, motions(clips.reference))[1])


def drifts(clips: Clips, motion: Sequence[Motion]) -> tuple[np.ndarray, np.ndarray]:
    """Candidate less reference of 1 - cos(looks of a frame, looks of the first), by part.

    The first frame is the first in which the reference has the part.

    Args:
        clips: Made alike.
        motion: Of the reference, :func:`~workbench.eval.optical_flow.motions`.

    Returns:
        Moving part and rest, float64 [frames - 1] each, from the second frame on; not a number
        where the part covers less than 0.5 % of the frame.
    """
    masks = moving(motion)
    own, other = (_distances(clip, masks) for clip in (clips.reference, clips.candidate))
    return tuple(b[1:] - a[1:] for a, b in zip(own, other, strict=True))


def moving(motion: Sequence[Motion]) -> np.ndarray:
    """Pixels that move by more than half a pixel a frame, the middle motion of all taken away.

    Returns:
        bool [frames, h, w]; of the last frame by the flow back from it.
    """
    flows = [*(moved.flow for moved in motion), motion[-1].back]
    own = (flow - np.median(flow, axis=(0, 1)) for flow in flows)
    return np.stack([np.hypot(flow[..., 0], flow[..., 1]) > MOVING for flow in own])


def looks(frame: np.ndarray, moving: np.ndarray) -> np.ndarray:
    """What the rest and the moving part of a frame look like, whatever their place and size.

    Histograms of the direction of the edges of L* (9 bins over half a turn, weighted by strength,
    as in a cell of Dalal and Triggs 2005, https://doi.org/10.1109/CVPR.2005.177), of L*, a* and b*
    (16 bins each). A value is shared by the two bins beside it. Each histogram has length 1.

    Args:
        frame: [h, w, 1 or 3], uint8 or float64 from 0 to 1.
        moving: bool [h, w].

    Returns:
        float64 [2, 57].
    """
    lab = cv2.cvtColor(rgb(unit(frame)), cv2.COLOR_RGB2Lab)
    slopes = [cv2.Sobel(lab[..., 0], cv2.CV_32F, *order) for order in ((1, 0), (0, 1))]
    part = moving.ravel().astype(np.int64)
    turn = np.arctan2(slopes[1], slopes[0]) / np.float32(np.pi) % 1
    places = [
        np.clip((plane - first) / (last - first), 0, 1) * (COLOURS - 1)
        for plane, (first, last) in zip(cv2.split(lab), LAB, strict=True)
    ]
    edges = _histograms(turn * EDGES, EDGES, part, np.hypot(*slopes))
    return np.hstack([edges, *(_histograms(place, COLOURS, part) for place in places)])


def _distances(clip: np.ndarray, masks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    seen = np.array([looks(frame, mask) for frame, mask in zip(clip, masks, strict=True)])
    share = masks.mean(axis=(1, 2))
    return _from_first(seen[:, 1], share >= LEAST), _from_first(seen[:, 0], 1 - share >= LEAST)


def _from_first(features: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Cosine distance of each [frames, 57] from the first that is there."""
    if not there.any():
        return np.full(len(features), np.nan)
    first = features[there.argmax()]
    both = np.linalg.norm(features, axis=1) * np.linalg.norm(first)
    with np.errstate(invalid="ignore"):
        return np.where(there, 1 - features @ first / both, np.nan)


def _histograms(
    place: np.ndarray, bins: int, part: np.ndarray, weight: np.ndarray | float = 1.0
) -> np.ndarray:
    """[2, bins], each of length 1 or 0; the last bin's neighbour is the first.

    Args:
        place: [h, w], from 0: 1.25 counts for a quarter in bin 2, for the rest in bin 1.
        bins: in each part.
        part: [h * w], 0 or 1.
        weight: [h, w], or the same for all.
    """
    low = np.floor(place)
    upper = ((place - low) * weight).ravel()
    lower = (weight - (place - low) * weight).ravel()
    at = low.ravel().astype(np.int64)
    counts = np.bincount(part * bins + at % bins, lower, 2 * bins)
    counts += np.bincount(part * bins + (at + 1) % bins, upper, 2 * bins)
    counts = counts.reshape(2, bins)
    length = np.linalg.norm(counts, axis=1, keepdims=True)
    return counts / np.where(length, length, 1)
