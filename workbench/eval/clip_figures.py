"""Clips of one prompt and seed at several precisions: players, slices of time, curves by frame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from workbench.errors import ComparisonRefused
from workbench.eval.bands import Curve, banded, untold
from workbench.eval.clip_encoding import BUDGET
from workbench.eval.figure_style import GREY, counted, styled, text, with_unit
from workbench.eval.floor_guard import refuse_foreign_floor
from workbench.eval.frames import frames_of
from workbench.eval.labels import label, labels
from workbench.eval.media import Html
from workbench.eval.metric_table import Metric
from workbench.eval.players import FrameCurve, players, unmoved
from workbench.eval.population import worst
from workbench.eval.temporal_metrics import KNOWN
from workbench.eval.time_slices import time_slices

if TYPE_CHECKING:
    from PIL import Image
    from plotly.graph_objects import Figure

    from workbench.eval.comparison import Comparison

FPS = 16.0  # of a set whose request names none


def clip_players(
    comparisons: Iterable[Comparison],
    prompt: int | str = 0,
    seed: int | None = None,
    *,
    floor: Comparison | None = None,
    metrics: Sequence[str] | None = None,
    budget: int = BUDGET,
) -> Html:
    """One prompt and seed at all precisions, played by one clock, with the metrics by frame.

    Opens at the worst frame of the first metric, over all candidates.

    Args:
        comparisons: one a candidate, against one reference.
        prompt: the prompt, or its index in the reference.
        seed: None takes the reference's first.
        floor: the reference against its repeat, such as ``noise_floor(reference).repeat``; where it
            lacks this pair, none is drawn.
        metrics: keys to choose from, in this order; None takes all that the frames have.
        budget: characters of the embedded frames at most.

    Raises:
        ComparisonRefused: no such prompt or seed in a comparison; comparisons against several
            references; a floor of another one; an unknown metric; clips of unequal lengths or
            sizes.
    """
    every = list(comparisons)
    rows = _rows(every, prompt, seed)
    refuse_foreign_floor(every[0].reference, floor)
    names = _names(every)
    tables = {name: one.frames(row) for name, one, row in zip(names[1:], every, rows, strict=True)}
    own = None if floor is None else _own_floor(floor, _asked(every[0], rows[0]))
    keys = _keys(tables.values(), metrics)
    curves = [
        FrameCurve(
            metric=KNOWN[key],
            values={name: table[key].tolist() for name, table in tables.items()},
            floor=None if own is None or key not in own else own[key].tolist(),
        )
        for key in keys
    ]
    asked, of = _asked(every[0], rows[0])
    return players(
        _clips(every, rows, names),
        fps=every[0].reference.spec.sampling.fps or FPS,
        curves=curves,
        start=_worst(tables.values(), keys[0]) if keys else 0,
        caption=f"{asked} · seed {of}",
        budget=budget,
    )


def clip_slices(
    comparisons: Iterable[Comparison],
    prompt: int | str = 0,
    seed: int | None = None,
    *,
    row: int | None = None,
) -> Html:
    """One row of pixels over time, of one prompt and seed at all precisions, below each other.

    Args:
        comparisons: one a candidate, against one reference.
        prompt: the prompt, or its index in the reference.
        seed: None takes the reference's first.
        row: of pixels, from the top; None takes the one where the reference changes most.

    Raises:
        ComparisonRefused: no such prompt or seed in a comparison; comparisons against several
            references; a row outside the frames; clips of one frame.
    """
    every = list(comparisons)
    rows = _rows(every, prompt, seed)
    clips = _clips(every, rows, _names(every))
    asked, of = _asked(every[0], rows[0])
    return time_slices(clips, row=row, caption=f"{asked} · seed {of}")


def curves_by_frame(
    frames: pd.DataFrame, metric: Metric, *, floor: pd.DataFrame | None = None
) -> Figure:
    """A metric by frame at each precision: median over the pairs, band from least to most.

    Args:
        frames: of :func:`workbench.eval.candidates.pair_frames`.
        metric: one that they have. Infinite values are gaps: PSNR of identical frames, the error of
            the motion where one of the two stands still. What is no number is left out. The note
            counts both.
        floor: the same of the reference against its repeat; drawn where it is farthest from
            identical.
    """
    curve = Curve(x="frame", y=metric.key, about="frame {frame}", log=False)
    figure = banded(frames, curve)
    note = _add_floor(figure, metric, floor)
    called = "identical frames" if np.isinf(metric.identical) else "infinite values"
    left_out = untold(frames, curve, called)
    figure.update_xaxes(dtick=max(1, round(frames["frame"].max() / 16)))
    return styled(
        figure,
        f"{text(metric.title)}, frame by frame",
        f"median and range over {counted(frames)}; {metric.closer}{left_out}; {note}",
        x="frame",
        y=with_unit(metric.title, metric.unit),
    )


def _add_floor(figure: Figure, metric: Metric, floor: pd.DataFrame | None) -> str:
    if floor is None:
        return "no floor measured"
    grouped = floor.groupby("frame")[metric.key]
    values = grouped.agg(worst, metric.key).astype(float)
    shown = values.where(np.isfinite(values) & (values != metric.identical))
    if shown.isna().all():
        return unmoved(values, metric)
    line = {"color": GREY, "dash": "dot"}
    figure.add_scatter(x=shown.index, y=shown, name="noise floor", mode="lines", line=line)
    return "grey: the noise floor, reference against its repeat"


def _asked(one: Comparison, row: int) -> tuple[str, int]:
    pair = one.pairs[row][0]
    return pair.prompt, pair.seed


def _rows(every: Sequence[Comparison], prompt: int | str, seed: int | None) -> list[int]:
    """Where each comparison has this prompt and seed."""
    if not every:
        raise ComparisonRefused("there is no comparison to show; pass one or more")
    spec = every[0].reference.spec
    wanted = dict(enumerate(spec.prompts.prompts)).get(prompt, prompt)
    of = spec.seeds[0] if seed is None else seed
    if len({one.reference.key for one in every}) > 1:
        against = ", ".join(dict.fromkeys(one.reference.key for one in every))
        raise ComparisonRefused(
            f"these comparisons are against several references ({against}); show those of one"
        )
    found = []
    for one in every:
        there = [_asked(one, row) for row in range(len(one.pairs))]
        if (wanted, of) not in there:
            raise ComparisonRefused(
                f"{label(one.candidate)} has no pair of prompt {wanted!r} at seed {of}; it has "
                f"{there}"
            )
        found.append(there.index((wanted, of)))
    return found


def _clips(
    every: Sequence[Comparison], rows: Sequence[int], names: Sequence[str]
) -> dict[str, list[Image.Image]]:
    reference, _ = every[0].pairs[rows[0]]
    candidates = [one.pairs[row][1] for one, row in zip(every, rows, strict=True)]
    return dict(zip(names, map(frames_of, [reference, *candidates]), strict=True))


def _names(every: Sequence[Comparison]) -> list[str]:
    """Of the reference and each candidate, all different."""
    plain = labels([every[0].reference, *(one.candidate for one in every)])
    counts = [plain[:i].count(name) for i, name in enumerate(plain)]
    return [f"{name} #{n + 1}" if n else name for name, n in zip(plain, counts, strict=True)]


def _own_floor(floor: Comparison, asked: tuple[str, int]) -> pd.DataFrame | None:
    """The floor's frames of this prompt and seed, where it has them."""
    there = [_asked(floor, row) for row in range(len(floor.pairs))]
    return floor.frames(there.index(asked)) if asked in there else None


def _keys(tables: Iterable[pd.DataFrame], metrics: Sequence[str] | None) -> list[str]:
    """Metrics that every table has, none of them missing throughout."""
    every = list(tables)
    there = [key for key in KNOWN if all(key in one and one[key].notna().any() for one in every)]
    if unknown := [key for key in metrics or () if key not in there]:
        raise ComparisonRefused(
            f"the frames have no {', '.join(unknown)}; they have {', '.join(there)}"
        )
    return there if metrics is None else list(metrics)


def _worst(tables: Iterable[pd.DataFrame], metric: str) -> int:
    found = pd.concat([table[["frame", metric]] for table in tables], ignore_index=True)
    return int(found["frame"][KNOWN[metric].farness(found[metric].astype(float)).idxmax()])
