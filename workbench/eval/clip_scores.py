"""Two clips scored: each frame, each transition, and the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import ComparisonRefused
from workbench.eval.clips import Align, prepare_clips
from workbench.eval.metrics import DEFAULT, score_pairs
from workbench.eval.temporal_metrics import KNOWN
from workbench.eval.transitions import Transitions


def frame_scores(
    reference: Any,
    candidate: Any,
    *,
    metrics: Sequence[str] = DEFAULT,
    align: Align | None = None,
    prompt: str | None = None,
) -> pd.DataFrame:
    """Every metric of pictures, frame by frame.

    Args:
        reference: clip, as :func:`~workbench.eval.clips.prepare_clips` takes it; one frame will do.
        candidate: clip of the same size.
        metrics: as of :func:`~workbench.eval.metrics.score`.
        align: ``"shorter"`` drops the last frames of the longer one.
        prompt: what the candidate should show, for ``clip_score``.

    Returns:
        One row a frame: frame, from 0, and a column for each metric; not a number where ``score``
        would call it missing, with the reason in ``.attrs["missing"]``. ``.attrs["notes"]`` says
        what was done to the clips.

    Raises:
        ComparisonRefused: as :func:`~workbench.eval.clips.prepare_clips` and ``score`` do.
    """
    clips = prepare_clips(reference, candidate, align=align)
    pairs = zip(clips.reference, clips.candidate, strict=True)
    scores = list(score_pairs(pairs, metrics, prompts=[prompt or ""] * len(clips.reference)))
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    columns = {name: [one.values.get(name, np.nan) for one in scores] for name in names}
    table = pd.DataFrame({"frame": range(len(scores)), **columns})
    missing = {name: why for one in scores for name, why in one.missing.items()}
    table.attrs |= {"missing": missing, "notes": clips.notes}
    return table


def temporal_table(reference: Any, candidate: Any, *, align: Align | None = None) -> pd.DataFrame:
    """What happens at each transition from one frame to the next.

    Args:
        reference: clip, as :func:`~workbench.eval.clips.prepare_clips` takes it, of 2 frames or
            more, at least 16 pixels a side.
        candidate: clip of the same size.
        align: ``"shorter"`` drops the last frames of the longer one.

    Returns:
        One row a transition: frame (the one that it leads to, from 1); every key of TEMPORAL, of
        which the shift and the drifts are those of that frame; motion_reference_px and
        motion_candidate_px (pixels), motion_ratio; shift_x_px and shift_y_px of that frame;
        matched_share (of the pixels, those that the warping error is taken over).
        ``.attrs["notes"]`` says what was done to the clips.

    Raises:
        ComparisonRefused: as :func:`~workbench.eval.clips.prepare_clips` does; one frame; smaller
            frames.
    """
    return Transitions(prepare_clips(reference, candidate, align=align, least=2)).table()


def temporal_scores(
    reference: Any, candidate: Any, *, align: Align | None = None
) -> dict[str, float]:
    """Two clips in numbers.

    Args:
        reference: as of :func:`temporal_table`.
        candidate: clip of the same size.
        align: ``"shorter"`` drops the last frames of the longer one.

    Returns:
        Every key of TEMPORAL, by its own function. And facts without a better end:
        motion_reference_px, motion_candidate_px, motion_ratio; matched_share; shift_found (of
        the frames that differ, the share whose shift can be told; 1 where none differs);
        temporal_flickering of the candidate, as VBench defines it, and
        temporal_flickering_reference; frames (compared).

    Raises:
        ComparisonRefused: as :func:`temporal_table` does.
    """
    clips = prepare_clips(reference, candidate, align=align, least=2)
    over_time = Transitions(clips)
    return {**over_time.scores(over_time.table()), "frames": len(clips.reference)}


def worst_frames(table: pd.DataFrame, metric: str, n: int = 5) -> pd.DataFrame:
    """The rows that are farthest from the reference by one metric, worst first.

    Of a metric that can be below its value for identical clips, the distance from that counts.

    Args:
        table: of :func:`frame_scores` or :func:`temporal_table`.
        metric: a column of it that METRICS or TEMPORAL knows.
        n: rows at most. Values that are no number count as none.

    Raises:
        ComparisonRefused: no such metric in the table; no rows asked for.
    """
    if metric not in table or metric not in KNOWN:
        there = ", ".join(name for name in table if name in KNOWN)
        raise ComparisonRefused(f"there is no metric {metric!r} here; there are {there}")
    if n < 1:
        raise ComparisonRefused(f"n={n} asks for no frames; pass 1 or more")
    rows = table.dropna(subset=[metric])
    far = KNOWN[metric].farness
    return rows.sort_values(metric, key=far, ascending=False, kind="stable").head(n)
