"""The metrics over time in groups, each computed when one of its metrics is asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from workbench.eval.clip_shift import shift_scores, shifts
from workbench.eval.clips import Clips
from workbench.eval.drift import drifts
from workbench.eval.optical_flow import Motion, lengths, mean_length, motions
from workbench.eval.temporal import MotionMagnitude, finite_mean, flicker, steadiness, warping
from workbench.eval.temporal_metrics import TEMPORAL

_PIXELS = ("motion_reference_px", "motion_candidate_px")
_BESIDE = (*_PIXELS, "motion_ratio", "shift_x_px", "shift_y_px", "matched_share")
FOUND = "shift_found"
FLICKERING = ("temporal_flickering", "temporal_flickering_reference")
_FLOW = 2.5e-7  # of one core a pixel and transition, as Group.seconds


class Transitions:
    """Two clips made alike, of 2 frames or more; what several groups need is computed once."""

    def __init__(self, clips: Clips) -> None:
        self.clips = clips

    @cached_property
    def motion(self) -> list[Motion]:
        """Of the reference, one a transition; refuses frames of less than 16 pixels a side."""
        return motions(self.clips.reference)

    @cached_property
    def shift(self) -> np.ndarray:
        """Of every frame, float64 [frames, 2]."""
        return shifts(self.clips)

    def table(self, metrics: Collection[str] = tuple(TEMPORAL)) -> pd.DataFrame:
        """The columns of :func:`~workbench.eval.clip_scores.temporal_table` that these are among.

        Raises:
            ComparisonRefused: frames too small for one of them.
        """
        found = {name: of for group in groups(metrics) for name, of in group.columns(self).items()}
        return self.ordered(found)

    def ordered(self, columns: Mapping[str, Any]) -> pd.DataFrame:
        """These columns in a table, one row a transition, in the order of the whole one."""
        order = [name for name in (*TEMPORAL, *_BESIDE) if name in columns]
        rows = range(1, len(self.clips.reference))
        table = pd.DataFrame({"frame": rows, **{name: columns[name] for name in order}})
        table.attrs["notes"] = self.clips.notes
        return table

    def scores(self, table: pd.DataFrame) -> dict[str, float]:
        """The clip in numbers, of the groups that ``table`` has."""
        there = [group for group in GROUPS if group.metrics[0] in table]
        found = {name: of for group in there for name, of in group.whole(self, table).items()}
        first = [name for name in TEMPORAL if name in found]
        return {name: found[name] for name in dict.fromkeys([*first, *found])}


@dataclass(frozen=True)
class Group:
    """Metrics that cost no more together than one of them."""

    metrics: tuple[str, ...]
    seconds: float
    """Of one core a pixel and transition, measured; docs/metrics.md, "Over time"."""
    columns: Callable[[Transitions], dict[str, Any]]
    """Column of the table -> one value a transition."""
    whole: Callable[[Transitions, pd.DataFrame], dict[str, float]]
    """The clip's numbers, of its table."""

    @property
    def cheap(self) -> bool:
        """Whether it is as nothing beside the metrics of pictures, at any size."""
        return self.seconds < CHEAP


def groups(metrics: Collection[str]) -> Iterator[Group]:
    """Those that have any of these metrics."""
    return (group for group in GROUPS if set(group.metrics) & set(metrics))


def _magnitudes(of: Transitions) -> dict[str, Any]:
    own = [mean_length(moved.flow) for moved in of.motion]
    both = [MotionMagnitude(*pair) for pair in zip(own, lengths(of.clips.candidate), strict=True)]
    return {
        "motion_error": [magnitude.error for magnitude in both],
        **{name: [pair[i] for pair in both] for i, name in enumerate(_PIXELS)},
        "motion_ratio": [magnitude.ratio for magnitude in both],
    }


def _magnitude(_: Transitions, table: pd.DataFrame) -> dict[str, float]:
    motion = MotionMagnitude(*(float(table[name].mean()) for name in _PIXELS))
    pixels = dict(zip(_PIXELS, motion, strict=True))
    return {"motion_error": motion.error, **pixels, "motion_ratio": motion.ratio}


def _flickering(of: Transitions, table: pd.DataFrame) -> dict[str, float]:
    clips = of.clips
    both = (steadiness(clip, clips.data_range) for clip in (clips.candidate, clips.reference))
    pair = dict(zip(FLICKERING, both, strict=True))
    return {"flicker_error": float(table["flicker_error"].mean()), **pair}


def _warped(of: Transitions) -> dict[str, Any]:
    return {
        "warping_error": warping(of.clips, of.motion),
        "matched_share": [moved.matched.mean() for moved in of.motion],
    }


def _followed(_: Transitions, table: pd.DataFrame) -> dict[str, float]:
    share = float(table["matched_share"].mean())
    return {"warping_error": finite_mean(table["warping_error"].to_numpy()), "matched_share": share}


def _shifted(of: Transitions) -> dict[str, Any]:
    found = of.shift
    return {
        "shift_error": np.hypot(*found[1:].T),
        "jitter": np.hypot(*np.diff(found, axis=0).T),
        "shift_x_px": found[1:, 0],
        "shift_y_px": found[1:, 1],
    }


def _shift(of: Transitions, _: pd.DataFrame) -> dict[str, float]:
    shift = shift_scores(of.clips, of.shift)
    return {"shift_error": shift.shift_error, "jitter": shift.jitter, FOUND: shift.found}


def _drifted(of: Transitions) -> dict[str, Any]:
    return dict(zip(_DRIFTS, drifts(of.clips, of.motion), strict=True))


def _drift(_: Transitions, table: pd.DataFrame) -> dict[str, float]:
    return {name: finite_mean(table[name].to_numpy()) for name in _DRIFTS}


def _flickers(of: Transitions) -> dict[str, Any]:
    return {"flicker_error": flicker(of.clips)}


_DRIFTS = ("subject_drift", "background_drift")
CHEAP = 2e-8  # PSNR, SSIM and FLIP of a frame take 1.3e-7 a pixel
GROUPS = (
    Group(("flicker_error",), 1.3e-8, _flickers, _flickering),
    Group(("warping_error",), _FLOW + 6e-8, _warped, _followed),
    Group(("motion_error",), _FLOW + 1.1e-7, _magnitudes, _magnitude),
    Group(("shift_error", "jitter"), 2e-7, _shifted, _shift),
    Group(_DRIFTS, _FLOW + 3.2e-7, _drifted, _drift),
)
