"""Data frame in, plotly figure out."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from html import escape
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import plotly.io as pio
from plotly.offline import get_plotlyjs

from workbench.eval.units import memory_unit

# Okabe and Ito's palette, distinct under every common colour blindness: https://jfly.uni-koeln.de/color/
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
GREY = "#8A8A8A"
COLOURS = {
    "BF16": "#333333",
    "FP16": "#333333",
    "FP32": "#333333",
    "FP8": PALETTE[0],
    "INT8": PALETTE[4],
    "W4A16": PALETTE[1],
    "FP8_PER_CHANNEL_PER_TOKEN": PALETTE[0],
    "W8A16": PALETTE[4],
    "NVFP4": PALETTE[2],
    "MXFP8": PALETTE[5],
    "MXFP4": PALETTE[3],
}
MIMETYPE = "application/vnd.plotly.v1+json"
INSIDE = 1e-16  # relative L2 below float64's own rounding: nothing to see on a log axis


def colour(precision: str) -> str:
    """The colour of a precision, the same in every figure; repeats are grey."""
    if " repeat" in precision:
        return GREY
    return COLOURS.get(precision) or PALETTE[zlib.crc32(precision.encode()) % len(PALETTE)]


def memory_bars(summary: pd.DataFrame) -> go.Figure:
    """Peak memory of each precision.

    Args:
        summary: as made by :func:`workbench.eval.summary.summary`.
    """
    unit, size = memory_unit(summary["peak_memory_bytes"].max())
    bars = go.Bar(
        x=summary["precision"],
        y=summary["peak_memory_bytes"] / size,
        marker_color=[colour(name) for name in summary["precision"]],
        texttemplate="%{y:.4~g}",
        hovertemplate=f"%{{x}}: %{{y:.1f}} {unit}<extra></extra>",
    )
    return styled(
        go.Figure(bars),
        "Peak memory by precision",
        "lower is better",
        x="precision",
        y=f"peak memory, {unit}",
    )


def latency_bars(summary: pd.DataFrame) -> go.Figure:
    """Median latency of a picture at each precision; whiskers from the fastest to the slowest.

    Args:
        summary: as made by :func:`workbench.eval.summary.summary`.
    """
    middle = summary["latency_s"]
    bars = go.Bar(
        x=summary["precision"],
        y=middle,
        marker_color=[colour(name) for name in summary["precision"]],
        error_y={
            "array": summary["latency_s_max"] - middle,
            "arrayminus": middle - summary["latency_s_min"],
            "color": "#111",
            "thickness": 1.2,
        },
        customdata=summary[["latency_s_min", "latency_s_max", "kernel"]].map(_safe),
        hovertemplate="%{x}: %{y:.3f} s (%{customdata[0]:.3f} to %{customdata[1]:.3f})<br>"
        "%{customdata[2]}<extra></extra>",
    )
    note = summary.attrs.get("speed_note") or "lower is better; whiskers from fastest to slowest"
    return styled(
        go.Figure(bars), "Time a picture by precision", note, x="precision", y="latency, s"
    )


def divergence_by_step(steps: pd.DataFrame, *, floor: pd.DataFrame | None = None) -> go.Figure:
    """Relative L2 of the latents by denoising step: median over the pairs, band from least to most.

    Args:
        steps: rows of :meth:`Comparison.steps` of one or more comparisons.
        floor: the same of the reference against its repeat; its largest value is the floor.
    """
    figure = go.Figure()
    for precision, rows in steps.groupby("precision", sort=False):
        for trace in _band(str(precision), _by_step(rows)):
            figure.add_trace(trace)
    note = _draw_floor(figure, floor)
    pairs = steps.groupby(["prompt", "seed"]).ngroups
    figure.update_yaxes(type="log", exponentformat="power")
    figure.update_xaxes(tick0=0, dtick=max(1, round(steps["step"].max() / 10)))
    return styled(
        figure,
        "Distance from the reference by denoising step",
        f"median and range over {pairs} pair{'s' * (pairs != 1)}; {note}",
        x="denoising step",
        y="relative L2 of the latents",
    )


def to_div(figure: Mapping[str, Any]) -> str:
    """HTML of one figure, given as its JSON; the page must hold :func:`plotly_js` once."""
    return pio.to_html(
        go.Figure(
            data=figure.get("data"),
            layout=figure.get("layout"),
            frames=figure.get("frames"),
            skip_invalid=True,
        ),
        include_plotlyjs=False,
        full_html=False,
        config={"displaylogo": False, "responsive": True},
    )


def plotly_js() -> str:
    """The source of plotly.js, to be put into a page once."""
    return get_plotlyjs()


def _by_step(rows: pd.DataFrame) -> pd.DataFrame:
    grouped = rows[rows["step"] > 0].groupby("step")  # step 0 is the common noise
    table = grouped["relative_l2"].agg(["min", "median", "max"])
    return table.where(table > INSIDE).assign(
        timestep=grouped["timestep"].first()
    )  # log axis: no zeros


def _band(precision: str, table: pd.DataFrame) -> list[go.Scatter]:
    shade = colour(precision)
    red, green, blue = (int(shade[i : i + 2], 16) for i in (1, 3, 5))
    edge = {
        "mode": "lines",
        "line_width": 0,
        "hoverinfo": "skip",
        "showlegend": False,
        "legendgroup": precision,
    }
    drawn = table.dropna(subset=["min"])  # a filled band cannot have gaps
    return [
        go.Scatter(x=drawn.index, y=drawn["max"], **edge),
        go.Scatter(
            x=drawn.index,
            y=drawn["min"],
            fill="tonexty",
            fillcolor=f"rgba({red},{green},{blue},0.15)",
            **edge,
        ),
        go.Scatter(
            x=table.index,
            y=table["median"],
            name=escape(precision),
            legendgroup=precision,
            mode="lines+markers",
            line={"color": shade, "width": 2},
            marker_size=5,
            customdata=table[["timestep", "min", "max"]],
            hovertemplate="step %{x}, timestep %{customdata[0]:.1f}<br>%{y:.3g} "
            "(%{customdata[1]:.3g} to %{customdata[2]:.3g})",
        ),
    ]


def _draw_floor(figure: go.Figure, floor: pd.DataFrame | None) -> str:
    if floor is None:
        return "no floor measured"
    table = _by_step(floor)
    if table["max"].isna().all():
        return "the floor is 0: the reference repeats bit by bit"
    figure.add_trace(
        go.Scatter(
            x=table.index,
            y=table["max"],
            name="noise floor",
            mode="lines",
            fill="tozeroy",
            line={"color": GREY, "dash": "dot"},
            fillcolor="rgba(138,138,138,0.2)",
            hovertemplate="step %{x}: floor %{y:.3g}<extra></extra>",
        )
    )
    return "grey: the noise floor, reference against its repeat"


def _safe(value: Any) -> Any:
    return escape(value) if isinstance(value, str) else value


def styled(figure: go.Figure, title: str, note: str, *, x: str, y: str) -> go.Figure:
    """The house style: title with a note below it, titles of both axes."""
    return figure.update_layout(
        template="plotly_white",
        title={"text": title, "subtitle": {"text": note}},
        xaxis_title=x,
        yaxis_title=y,
        height=430,
        margin={"l": 80, "r": 30, "t": 90, "b": 60},
        font={"family": "system-ui, sans-serif", "color": "#222"},
        hovermode="x unified" if figure.data and figure.data[0].type == "scatter" else "closest",
    )
