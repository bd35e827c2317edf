"""Two clips in one row: every metric of their frames pooled, and every metric over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import ComparisonRefused
from workbench.eval.clip_scores import frame_scores
from workbench.eval.clips import Align, Clips, prepare_clips
from workbench.eval.metrics import DEFAULT, Scores, wanted_metrics
from workbench.eval.pictures import Fit
from workbench.eval.temporal import finite_mean
from workbench.eval.temporal_metrics import TEMPORAL
from workbench.eval.transitions import FLICKERING, FOUND, Group, Transitions, groups

AFFORDABLE = 4e6  # pixels of a frame times transitions: all metrics over time come by themselves
FACTS = {
    FOUND: ("shift_error", "jitter"),
    "matched_share": ("warping_error",),
    **dict.fromkeys(FLICKERING, ("flicker_error",)),
}
"""What stands beside a metric: how much it could see, or VBench's number. No end is better."""
_UNTOLD = {
    "warping_error": "no pixel of the reference can be followed",
    "subject_drift": "too little of the reference moves",
    "background_drift": "too little of the reference stands still",
}


def score_clips(
    reference: Any,
    candidate: Any,
    *,
    metrics: Sequence[str] = DEFAULT,
    align: Align | None = None,
    value_range: tuple[float, float] | None = None,
    fit: Fit | None = None,
    prompt: str | None = None,
) -> Scores:
    """Measure how far one clip is from another.

    A metric of pictures is the mean over frames of what it is of each, PSNR the mean in dB over the
    frames that differ: infinite where none does. docs/metrics.md, "Over time", says why.

    Args:
        reference: clip, as :func:`~workbench.eval.clips.prepare_clips` takes it; one frame will do.
        candidate: clip of the same size.
        metrics: keys of :func:`~workbench.eval.metrics.metric_table` that are not of latents. Left
            out, the cheap ones of pictures and flicker, and all others over time where transitions
            times pixels are at most ``AFFORDABLE``; what cannot be had is in ``missing`` with its
            reason.
        align: ``"shorter"`` drops the last frames of the longer clip.
        value_range: black and white of what is not uint8.
        fit: for unequal sizes, ``"crop"`` or ``"resize"``.
        prompt: what the candidate should show, for ``clip_score``.

    Returns:
        ``values`` with ``shift_found`` beside shift and jitter, and ``matched_share`` beside the
        warping error: the shares that these could be told of, 0 to 1. Beside flicker VBench's
        ``temporal_flickering`` of the candidate, and ``temporal_flickering_reference``. And
        ``frames``, one row a frame: frame, from 0; identical; the metrics of pictures; and of the
        groups of metrics over time that any was asked for of
        (:mod:`workbench.eval.transitions`) the columns of
        :func:`~workbench.eval.clip_scores.temporal_table`, at the frame that each transition leads
        to; at frame 0 the shift alone.

    Raises:
        ComparisonRefused: as :func:`~workbench.eval.clips.prepare_clips` does; an unknown metric;
            frames too few or too small for one that was asked for by name.
    """
    keys = [metric.key for metric in wanted_metrics(metrics)]
    chosen = metrics is not DEFAULT
    pictures = DEFAULT if not chosen else [key for key in keys if key not in TEMPORAL]
    over_time = [key for key in keys if key in TEMPORAL] if chosen else list(TEMPORAL)
    clips = prepare_clips(reference, candidate, align=align, value_range=value_range, fit=fit)
    frames = frame_scores(clips.reference, clips.candidate, metrics=pictures, prompt=prompt)
    refused = frames.attrs["missing"]
    frames.insert(1, "identical", _identical(clips))
    values = {
        key: _mean(frames[key], frames["identical"])
        for key in pictures
        if key not in refused or frames[key].notna().any()
    }
    missing = {key: why for key, why in refused.items() if key not in values}
    notes = clips.notes + tuple(
        _left_out(frames[key], refused[key]) for key in refused if key in values
    )
    found, columns, untaken = _over_time(clips, over_time, chosen=chosen)
    missing |= untaken
    if columns:
        told = [key for key in over_time if key in columns]
        table = found.ordered(columns)
        of_clip = found.scores(table)
        values |= {key: of_clip[key] for key in (*told, *_facts(told))}
        notes += tuple(_untold(table, told))
        frames = _with_transitions(frames, table, found)
    frames.attrs.clear()  # of frame_scores; pandas would compare them in every concat
    return Scores(values, missing, notes, clips.clamped, frames)


def _untold(transitions: pd.DataFrame, over_time: Sequence[str]) -> Iterator[str]:
    """What means over transitions leave out; what the shift leaves out is in ``shift_found``."""
    for key, why in _UNTOLD.items():
        if key in over_time and transitions[key].isna().any():
            yield _left_out(transitions[key], why).replace(" frames ", " transitions ")


def _left_out(values: pd.Series, why: str) -> str:
    return f"{values.name}: {values.isna().sum()} of {len(values)} frames left out: {why}"


def _identical(clips: Clips) -> list[bool]:
    return [np.array_equal(*pair) for pair in zip(clips.reference, clips.candidate, strict=True)]


def _mean(values: pd.Series, identical: pd.Series) -> float:
    """Over the finite values; infinite where all are, as PSNR of identical frames is."""
    if identical.all() and np.isposinf(values).all():
        return float("inf")
    return finite_mean(values.to_numpy(float))


def _over_time(
    clips: Clips, wanted: Sequence[str], *, chosen: bool
) -> tuple[Transitions, dict[str, Any], dict[str, str]]:
    """What was asked for of each group that can be had, and why the others cannot."""
    found, columns, missing = Transitions(clips), {}, {}
    for group in groups(wanted):
        try:
            reason = "" if chosen else _too_much(clips, group)
            _refuse_one(clips)
            columns |= {} if reason else group.columns(found)
        except ComparisonRefused as error:
            if chosen:
                raise
            reason = str(error)
        missing |= {key: reason for key in group.metrics if reason}
    return found, columns, missing


def _refuse_one(clips: Clips) -> None:
    if len(clips.reference) < 2:
        raise ComparisonRefused("metrics over time need at least 2 frames, got 1")


def _too_much(clips: Clips, group: Group) -> str:
    """Why the metrics of a group do not come by themselves; empty where they do."""
    number, height, width = clips.reference.shape[:3]
    work = (number - 1) * height * width
    if work <= AFFORDABLE or group.cheap:
        return ""
    said = "1 transition" if number == 2 else f"{number - 1} transitions"
    return (
        f"{said} of {width} x {height} pixels: about {work * group.seconds:.0f} s of a core a "
        "pair; ask for it by name in metrics="
    )


def _with_transitions(
    frames: pd.DataFrame, table: pd.DataFrame, found: Transitions
) -> pd.DataFrame:
    """The frames with what happened on the way to each; at frame 0 the shift alone."""
    table.attrs.clear()
    whole = frames.merge(table, on="frame", how="left")
    if "jitter" in table:
        shift = found.shift[0]
        whole.loc[0, ["shift_error", "shift_x_px", "shift_y_px"]] = [np.hypot(*shift), *shift]
    return whole


def _facts(over_time: Sequence[str]) -> list[str]:
    return [fact for fact, of in FACTS.items() if set(of) & set(over_time)]
