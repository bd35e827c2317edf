"""Scores of the pictures by precision, beside the noise floor: data frame in, plotly figure out."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from workbench.eval.figure_style import GREY, beyond, colour, shaded, styled, text, with_unit

if TYPE_CHECKING:
    from workbench.eval.metric_table import Metric

ROW_PIXELS = 46
INSIDE = "inside the floor"
_SAID = {"above": "error above the floor", "identical": "all identical"}
_HEAD, _FOOT = 110, 110  # pixels above and below the rows
_DRAWN = ["median", "low", "high", "q1", "q3"]
_SPREADS = (
    ("middle half of the pairs", "q1", "q3", {"color": GREY, "width": 1.5}),
    ("95 % interval of the median", "low", "high", {"color": "#555555", "width": 6}),
)


def scores_with_floor(stats: pd.DataFrame, metric: Metric) -> go.Figure:
    """Median of a metric at each precision with its interval, and the noise floor across.

    Infinite values (PSNR of identical pictures) lie at the right edge and are named there; so does
    a precision whose pairs are all identical and that has no finite median.

    Args:
        stats: one row a precision: precision, n, median, low, high (95 % interval of the median),
            q1, q3, min, max, identical (pairs), against_floor (shown as it is; an open dot where
            it is "inside the floor"), and, if there, left_out (pairs without a value).
            ``stats.attrs["floor"]`` is the range of the metric over the reference's repeats,
            ``{"low": ..., "high": ...}``, or None.
        metric: a value of :data:`workbench.eval.metric_table.METRICS`.
    """
    rows = _whole(stats)
    names = rows["precision"].map(text)
    floor = _floor(stats)
    known = [*rows[_DRAWN].to_numpy().flat, *(floor or ())]
    edge = beyond(known)
    figure = go.Figure([_bar(rows, names, spread, edge) for spread in _SPREADS])
    figure.add_trace(_dots(rows, names, edge, metric))
    _draw_floor(figure, floor, edge)
    _draw_edge(figure, known, edge)
    _name_rows(figure, rows, names)
    figure.update_yaxes(autorange="reversed", categoryorder="array", categoryarray=list(names))
    pairs = stats[["identical", "n"]].sum()
    lost = stats["left_out"].sum() if "left_out" in stats else 0
    left_out = f"; {lost:.0f} without a value left out" if lost else ""
    return styled(
        figure,
        f"{text(metric.title)} by precision",
        f"{metric.closer}; {pairs['identical']:.0f} of {pairs['n']:.0f} pairs identical{left_out}; "
        f"{_floor_note(stats, floor, metric)}",
        x=with_unit(metric.title, metric.unit),
        y="",
    ).update_layout(
        hovermode="closest",
        height=_HEAD + _FOOT + ROW_PIXELS * len(stats),
        margin={"t": _HEAD, "b": _FOOT, "r": 150},
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"},
    )


def _whole(stats: pd.DataFrame) -> pd.DataFrame:
    """The same in floats; where all pairs are identical and no value is finite, an infinite one."""
    rows = stats.astype(dict.fromkeys([*_DRAWN, "min", "max"], float))
    nothing_finite = rows["identical"].eq(rows["n"]) & rows["median"].isna()
    return rows.assign(median=rows["median"].mask(nothing_finite, np.inf))


def _floor(stats: pd.DataFrame) -> tuple[float, float] | None:
    given = stats.attrs.get("floor")
    if given is None or not np.isfinite(given["low"]):
        return None
    return float(given["low"]), float(given["high"])


def _floor_note(stats: pd.DataFrame, floor: tuple[float, float] | None, metric: Metric) -> str:
    if floor == (metric.identical, metric.identical):
        return f"the floor is exactly {metric.identical:g}, as of identical ones"
    if floor is not None:
        return "grey: the noise floor, reference against its repeats"
    given = stats.attrs.get("floor")
    if given is None or np.isnan(given["low"]):
        return "no floor measured"
    return "the floor is bit-exact: the reference's repeats are identical"


def _bar(stats: pd.DataFrame, names: pd.Series, spread: tuple, edge: float) -> go.Scatter:
    label, first, last, line = spread
    shown = stats[[first, last]].clip(upper=edge)
    known = shown.notna().all(axis=1)
    return go.Scatter(
        x=list(chain.from_iterable((low, high, None) for low, high in shown[known].to_numpy())),
        y=list(chain.from_iterable((name, name, None) for name in names[known])),
        name=label,
        mode="lines",
        line=line,
        hoverinfo="skip",
    )


def _dots(stats: pd.DataFrame, names: pd.Series, edge: float, metric: Metric) -> go.Scatter:
    shades = [colour(str(name)) for name in stats["precision"]]
    hollow = stats["against_floor"].eq(INSIDE)
    return go.Scatter(
        x=stats["median"].clip(upper=edge),
        y=names,
        name="median",
        mode="markers",
        marker={
            "size": 13,
            "color": ["#ffffff" if inside else s for inside, s in zip(hollow, shades, strict=True)],
            "line": {"color": shades, "width": 2.5},
        },
        customdata=[[_told(row, text(metric.unit))] for row in stats.to_dict("records")],
        hovertemplate="%{y}<br>%{customdata[0]}<extra></extra>",
    )


def _told(row: dict, unit: str) -> str:
    shown = {key: f"{row[key]:.4g}" for key in ("median", "low", "high", "q1", "q3", "min", "max")}
    return (
        "median {median} {unit}, interval {low} to {high}<br>middle half {q1} to {q3}, all {min} "
        "to {max}<br>{n} pairs, {identical} identical; {against}"
    ).format(
        unit=unit,
        n=row["n"],
        identical=row["identical"],
        against=text(row["against_floor"]),
        **shown,
    )


def _draw_floor(figure: go.Figure, floor: tuple[float, float] | None, edge: float) -> None:
    if floor is None:
        return
    low, high = floor[0], min(floor[1], edge)
    look = {"color": GREY, "width": 1, "dash": "dot"}
    figure.add_vrect(
        x0=low,
        x1=high,
        line=look,
        fillcolor=shaded(GREY, 0.2),
        layer="below",
        annotation={"text": "noise floor", "font_size": 11, "font_color": "#555555"},
        annotation_position="top",
    )


def _draw_edge(figure: go.Figure, known: list[float], edge: float) -> None:
    least = min((value for value in known if np.isfinite(value)), default=edge - 1)
    figure.update_xaxes(range=[least - 0.05 * (edge - least), edge + 0.02 * (edge - least)])
    if np.isposinf(known).any():
        figure.add_vline(
            x=edge,
            line={"color": GREY, "width": 1, "dash": "dot"},
            layer="below",
            annotation={"text": "infinite", "font_size": 11, "font_color": "#555555"},
            annotation_position="top",
        )


def _name_rows(figure: go.Figure, stats: pd.DataFrame, names: pd.Series) -> None:
    for name, row in zip(names, stats.to_dict("records"), strict=True):
        said = str(row["against_floor"])
        figure.add_annotation(
            x=1,
            xref="paper",
            y=name,
            text=text(_SAID.get(said, said)),
            xanchor="left",
            xshift=12,
            showarrow=False,
            font={"size": 12, "color": "#555555"},
        )
