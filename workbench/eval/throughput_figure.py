"""Throughput against requests in flight: data frame in, plotly figure out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from workbench.eval.figure_style import GREY, colour, shaded, styled, text
from workbench.eval.speed_labels import cautions, counted, noted, run_labels, spread_words
from workbench.eval.speed_spread import spread_name

if TYPE_CHECKING:
    from workbench.eval.crossing import Crossing

_LOOKS = (("solid", "circle"), ("dash", "diamond"), ("dot", "square"), ("dashdot", "x"))
"""Dash and marker of curves of one colour; a single point has its marker alone."""
_HEIGHT, _LINE = 500, 0.055  # pixels; height of a label, of the largest value


def throughput_curves(table: pd.DataFrame, *, crossings: Iterable[Crossing] = ()) -> go.Figure:
    """Pictures or clips a second against requests in flight, with bands and the crossings.

    A band is the 95 % interval; with fewer than 6 rounds of requests it is their range.

    Args:
        table: rows of :func:`workbench.eval.speed.speed_table`.
        crossings: of :func:`workbench.eval.crossing.crossing`; each that was decided is a vertical
            line with its interval as a band; one that too few rounds leave open is a line alone;
            what is not decided is named in the note.
    """
    figure, used = go.Figure(), []
    labels = run_labels(table)
    for name, rows in table.groupby(labels, sort=False):
        shade = colour(str(rows["precision"].iloc[0]))
        look = _LOOKS[used.count(shade) % len(_LOOKS)]
        used.append(shade)
        figure.add_traces(_curve(str(name), rows.sort_values("concurrency"), shade, look))
    _name_ends(figure, table.assign(label=labels))
    undecided = _draw_crossings(figure, list(crossings))
    sizes = sorted(table["concurrency"].unique())
    figure.update_xaxes(type="log", tickvals=sizes, ticktext=list(map(str, sizes)))
    figure.update_yaxes(rangemode="tozero")
    note = noted(
        f"higher is better; bands: {spread_words(table)}; ends labelled at {sizes[-1]} in flight",
        undecided,
        text(cautions(table)),
    )
    y = f"{counted(table)} / s"
    styled(figure, "Throughput by requests in flight", note, x="requests in flight", y=y)
    figure.update_layout(hovermode="closest", margin_r=210)
    return figure.update_layout(
        height=figure.layout.height + _HEIGHT - 430,
        margin_b=100,
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"},
    )


def _curve(name: str, rows: pd.DataFrame, shade: str, look: tuple[str, str]) -> list[go.Scatter]:
    dash, symbol = look
    edge = {
        "mode": "lines",
        "line_width": 0,
        "hoverinfo": "skip",
        "showlegend": False,
        "legendgroup": name,
    }
    known = rows.dropna(subset=["pictures_per_s_low", "pictures_per_s_high"])
    low, high = known["pictures_per_s_low"], known["pictures_per_s_high"]
    what = counted(rows)
    filled = {"fill": "tonexty", "fillcolor": shaded(shade, 0.15)}
    told = rows[["pictures_per_s_low", "pictures_per_s_high", "requests", "mean_batch"]].assign(
        spread=rows["rounds"].map(spread_name)
    )
    return [
        go.Scatter(x=known["concurrency"], y=high, **edge),
        go.Scatter(x=known["concurrency"], y=low, **filled, **edge),
        go.Scatter(
            x=rows["concurrency"],
            y=rows["pictures_per_s"],
            name=text(name),
            legendgroup=name,
            mode="lines+markers",
            line={"color": shade, "width": 2, "dash": dash},
            marker={"symbol": symbol, "size": 6 if symbol == "circle" else 8},
            customdata=told,
            hovertemplate=f"{text(name)}, %{{x}} in flight: %{{y:.4~g}} {what}/s<br>"
            "%{customdata[0]:.4~g} to %{customdata[1]:.4~g} (%{customdata[4]}), %{customdata[2]} "
            "requests, "
            f"%{{customdata[3]:.3~g}} {what} a pass<extra></extra>",
        ),
    ]


def _name_ends(figure: go.Figure, table: pd.DataFrame) -> None:
    """The value of each curve at the highest concurrency, and how it lies to the first curve's."""
    ends = table[table["concurrency"] == table["concurrency"].max()]
    ends = ends.sort_values("pictures_per_s")
    first = ends.loc[ends["label"] == table["label"].iloc[0], "pictures_per_s"]
    places = _apart(ends["pictures_per_s"].to_numpy(), _LINE * table["pictures_per_s"].max())
    for place, row in zip(places, ends.to_dict("records"), strict=True):
        more = "" if first.empty else f" ({row['pictures_per_s'] / first.iloc[0] - 1:+.0%})"
        own = not first.empty and row["label"] == table["label"].iloc[0]
        figure.add_annotation(
            x=np.log10(row["concurrency"]),
            y=place,
            text=f"{row['pictures_per_s']:.4g}{'' if own else more} {text(row['label'])}",
            font={"color": colour(str(row["precision"])), "size": 12},
            xanchor="left",
            xshift=10,
            showarrow=False,
        )


def _apart(values: Sequence[float], gap: float) -> np.ndarray:
    """Ascending values, pushed up where closer than ``gap``, then moved back to their mean."""
    places = np.array(values, dtype=float)
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + gap)
    return places - (places - values).mean()


def _draw_crossings(figure: go.Figure, crossings: Sequence[Crossing]) -> str:
    """Lines and bands of those that were decided; what the note says of the others.

    Their texts stand on the axis: no curve comes near zero.
    """
    for number, one in enumerate(one for one in crossings if _shown(one)):
        shade = colour(one.candidate.split(" with ")[0])
        if one.low is not None:
            figure.add_vrect(
                x0=one.low, x1=one.high, fillcolor=shaded(shade, 0.12), line_width=0, layer="below"
            )
        figure.add_vline(x=one.at, line={"color": shade or GREY, "dash": "dash", "width": 1.5})
        figure.add_annotation(
            x=np.log10(one.at),
            y=0,
            yref="paper",
            yshift=14 * number,
            text=f"{text(one.candidate)} overtakes at {one.at:.1f}"
            + ("" if one.decided else ", as measured"),
            font={"size": 11, "color": shade},
            xanchor="left",
            yanchor="bottom",
            xshift=4,
            showarrow=False,
        )
    unsure = [text(one.candidate) for one in crossings if not one.decided]
    return f"not decided: {', '.join(unsure)}" if unsure else ""


def _shown(one: Crossing) -> bool:
    return one.at is not None and (one.decided or not one.shares)
