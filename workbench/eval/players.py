"""Clips side by side, played by one clock: an HTML fragment, whole in itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from PIL import Image

from workbench.errors import ComparisonRefused
from workbench.eval.clip_encoding import BUDGET, encoded
from workbench.eval.figure_style import colour
from workbench.eval.media import Html, filled
from workbench.eval.metric_table import Metric

STROKES = ("", "10 4", "2 3", "10 4 2 4")  # of lines that share a colour; SVG's stroke-dasharray
SMALLEST, LARGEST = 256, 640  # width of a pane on the page, pixels


@dataclass(frozen=True, kw_only=True)
class FrameCurve:
    """A metric by frame, drawn under the clips."""

    metric: Metric
    values: Mapping[str, Sequence[float]] = field(repr=False)
    """Candidate -> its value at each frame; not a number where there is none."""
    floor: Sequence[float] | None = field(default=None, repr=False)
    """The same of the reference against its repeat."""


def players(
    clips: Mapping[str, Sequence[Image.Image]],
    *,
    fps: float,
    curves: Iterable[FrameCurve] = (),
    start: int = 0,
    caption: str = "",
    budget: int = BUDGET,
) -> Html:
    """Reference, candidates and their amplified differences, frame by frame, with curves below.

    Play, step, drag the bar or the curve's cursor; arrow keys and space do the same. Small clips
    are embedded lossless, larger ones as WebP of the best quality that fits ``budget``, with
    differences taken before that; a line on the page says which.

    Args:
        clips: label -> RGB frames, all of one size and number; the first is the reference, and
            there is at least one candidate.
        fps: frames a second at speed 1.
        curves: metrics to choose from, over the labels of the candidates.
        start: the frame shown at first.
        caption: a line above.
        budget: characters of the embedded frames at most.

    Raises:
        ComparisonRefused: no candidate, or what
            :func:`~workbench.eval.clip_encoding.encoded` refuses.
    """
    if len(clips) < 2:
        raise ComparisonRefused(
            f"players compare a reference with candidates, got {len(clips)} clip; add one"
        )
    shown = encoded(clips, budget)
    first, *others = clips
    data = {
        "clips": list(shown.clips.values()),
        "differences": list(shown.differences.values()),
        "fps": fps,
        "start": start,
        "curves": [_drawn(curve, others) for curve in curves],
    }
    return filled(
        "players.html",
        caption=escape(caption),
        buttons="\n".join(map(_button, others)) if len(others) > 1 else "",
        panes="\n".join(_panes(first, others, shown.size)),
        last=len(shown.clips[first]) - 1,
        how=escape(shown.how[:1].upper() + shown.how[1:] + "."),
        width=min(max(shown.size[0], SMALLEST), LARGEST),
        data=json.dumps(data).replace("<", "\\u003c"),  # NaN and Infinity are JavaScript
    )


def _button(name: str) -> str:
    return f'<button type="button" data-candidate aria-pressed="true">{escape(name)}</button>'


def _panes(first: str, others: Sequence[str], size: tuple[int, int]) -> list[str]:
    named = [(f"reference {first}", "clip"), *((name, "clip") for name in others)]
    apart = [(f"difference of {name}", "apart") for name in others]
    figures = [_figure(name, kind, size) for name, kind in (*named, *apart)]
    gap = '<div class="apart">differences,<br>amplified</div>'
    return [*figures[: len(named)], gap, *figures[len(named) :]]


def _figure(name: str, kind: str, size: tuple[int, int]) -> str:
    width, height = size
    canvas = (
        f'<canvas data-{kind} width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(name)}"></canvas>'
    )
    return f"<figure>{canvas}<figcaption>{escape(name)}</figcaption></figure>"


def _drawn(curve: FrameCurve, names: Sequence[str]) -> dict[str, Any]:
    metric = curve.metric
    return {
        "title": metric.title,
        "unit": metric.unit,
        "better": metric.better,
        "middle": metric.identical if metric.signed else None,
        "note": f"{metric.unit or 'no unit'}, {metric.closer}; {_floor_note(curve)}",
        "lines": [
            {**look, "name": name, "values": _numbers(curve.values[name])}
            for name, look in zip(names, _looks(names), strict=True)
        ],
        "floor": _numbers(curve.floor) if _moves(curve) else None,
    }


def _looks(names: Sequence[str]) -> list[dict[str, str]]:
    """Colour of each line, and a dash where another one has that colour already."""
    shades = [colour(name) for name in names]
    used = [shades[:i].count(shade) for i, shade in enumerate(shades)]
    return [
        {"colour": shade, "dash": STROKES[n % len(STROKES)]}
        for shade, n in zip(shades, used, strict=True)
    ]


def _floor_note(curve: FrameCurve) -> str:
    if curve.floor is None:
        return "no floor measured"
    if _moves(curve):
        return "grey, dashed: the noise floor, reference against its repeat"
    return unmoved(curve.floor, curve.metric)


def unmoved(floor: Sequence[float], metric: Metric) -> str:
    """What a note says of a floor that is not drawn, by frame: all identical, or not told."""
    known = np.asarray(floor, dtype=float)
    known = known[~np.isnan(known)]
    if known.size and (known == metric.identical).all():
        return "the floor is bit-exact: the reference repeats itself"
    return "the floor could not be told"


def _moves(curve: FrameCurve) -> bool:
    """Whether there is a floor to draw: of identical frames there is none."""
    values = np.asarray([] if curve.floor is None else curve.floor, dtype=float)
    return bool((np.isfinite(values) & (values != curve.metric.identical)).any())


def _numbers(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.6g}") for value in values]
