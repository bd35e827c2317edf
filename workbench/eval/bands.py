"""Curves over steps, timesteps or frequencies: median and range over the pairs, and the floor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from workbench.eval.figure_style import GREY, colour, shaded, text

INSIDE = 1e-16  # relative L2 below float64's own rounding: nothing to see on a log axis
DASHES = ("solid", "dash", "dot", "dashdot")


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Which columns of a table are drawn, and how."""

    x: str
    """Column across."""
    y: str
    """Column up, 0 or larger."""
    about: str
    """What the hover says of a place: a format string over the columns of the table."""
    log: bool = True
    """Whether the axis up is logarithmic; zeros are gaps then."""

    def spread(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Least, median and largest value at each place.

        Args:
            rows: one row a pair and place, with the columns that the curve names.

        Returns:
            Index ``x``; columns min, median, max (not a number where there is nothing to draw:
            infinite, or 0 on a logarithmic axis), about.
        """
        grouped = rows.groupby(self.x)
        table = grouped[self.y].agg(["min", "median", "max"])
        finite = table.where(np.isfinite(table))
        shown = finite.where(finite > INSIDE) if self.log else finite
        places = grouped.first().reset_index().to_dict("records")
        return shown.assign(about=[text(self.about.format(**place)) for place in places])


def banded(rows: pd.DataFrame, curve: Curve) -> go.Figure:
    """One line and band a precision: the median, and the range over the pairs.

    Args:
        rows: one row a precision, pair and place: precision, and the columns of the curve.
        curve: what to draw.
    """
    figure = go.Figure()
    used: list[str] = []
    for precision, of_one in rows.groupby("precision", sort=False):
        shade = colour(str(precision))
        dash = DASHES[used.count(shade) % len(DASHES)]  # two precisions may share a colour
        used.append(shade)
        figure.add_traces(_band(str(precision), curve.spread(of_one), shade, dash))
    if curve.log:
        figure.update_yaxes(type="log", exponentformat="power")
    return figure


def untold(rows: pd.DataFrame, curve: Curve, infinite: str = "infinite values") -> str:
    """How many values a curve does not show, as the end of a note; empty where it shows all.

    Where no pair of any precision has a number there is nothing to count, as of a metric between
    frames at the first one.

    Args:
        rows: the table of :func:`banded`.
        curve: what was drawn.
        infinite: what to call infinite values.
    """
    values = rows[curve.y].astype(float)
    endless = int(np.isinf(values).sum())
    measured = values.notna().groupby(rows[curve.x]).transform("any")
    lost = int((values.isna() & measured).sum())
    said = f"; {endless} {infinite} are gaps" if endless else ""
    return said + (f"; {lost} that are no number are left out" if lost else "")


def add_floor(figure: go.Figure, floor: pd.DataFrame | None, curve: Curve) -> str:
    """Draw the noise floor: the largest value of the reference against its repeats.

    Args:
        figure: made by :func:`banded`; changed in place.
        floor: the table of :func:`banded` for the repeats; None where none was measured.
        curve: what was drawn.

    Returns:
        What the note says of it.
    """
    if floor is None:
        return "no floor measured"
    table = curve.spread(floor)
    if not (table["max"] > INSIDE).any():
        zero = (floor[curve.y].astype(float) <= INSIDE).all()
        repeats = "the floor is 0: the reference repeats bit by bit"
        return repeats if zero else "the floor is no finite number: look at the reference itself"
    figure.add_trace(
        go.Scatter(
            x=table.index,
            y=table["max"],
            name="noise floor",
            mode="lines",
            fill="tozeroy",
            line={"color": GREY, "dash": "dot"},
            fillcolor=shaded(GREY, 0.2),
            customdata=table[["about"]],
            hovertemplate="%{customdata[0]}: floor %{y:.3g}<extra></extra>",
        )
    )
    return "grey: the noise floor, reference against its repeat"


def _band(precision: str, table: pd.DataFrame, shade: str, dash: str) -> list[go.Scatter]:
    edge = {
        "mode": "lines",
        "line_width": 0,
        "hoverinfo": "skip",
        "showlegend": False,
        "legendgroup": precision,
    }
    drawn = table.dropna(subset=["min", "max"])  # a filled band cannot have gaps
    return [
        go.Scatter(x=drawn.index, y=drawn["max"], **edge),
        go.Scatter(
            x=drawn.index, y=drawn["min"], fill="tonexty", fillcolor=shaded(shade, 0.15), **edge
        ),
        go.Scatter(
            x=table.index,
            y=table["median"],
            name=text(precision),
            legendgroup=precision,
            mode="lines+markers",
            line={"color": shade, "width": 2, "dash": dash},
            marker_size=5,
            customdata=table[["about", "min", "max"]],
            hovertemplate="%{customdata[0]}<br>%{y:.3g} "
            "(%{customdata[1]:.3g} to %{customdata[2]:.3g})",
        ),
    ]
