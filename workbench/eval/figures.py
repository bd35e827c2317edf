"""Data frame in, plotly figure out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import plotly.io as pio
from plotly.offline import get_plotlyjs

from workbench.eval.bands import Curve, add_floor, banded, untold
from workbench.eval.figure_style import colour, counted, styled, text
from workbench.eval.units import memory_unit

MIMETYPE = "application/vnd.plotly.v1+json"
_BY_STEP = Curve(x="step", y="relative_l2", about="step {step}, timestep {timestep:.1f}")


def memory_bars(summary: pd.DataFrame) -> go.Figure:
    """Peak memory of each precision.

    Args:
        summary: as made by :func:`workbench.eval.summary.summary`.
    """
    unit, size = memory_unit(summary["peak_memory_bytes"].max())
    bars = go.Bar(
        x=summary["precision"].map(text),
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
    """Median latency of a picture or video; whiskers from the fastest to the slowest.

    Args:
        summary: as made by :func:`workbench.eval.summary.summary`.
    """
    middle = summary["latency_s"]
    bars = go.Bar(
        x=summary["precision"].map(text),
        y=middle,
        marker_color=[colour(name) for name in summary["precision"]],
        error_y={
            "array": summary["latency_s_max"] - middle,
            "arrayminus": middle - summary["latency_s_min"],
            "color": "#111",
            "thickness": 1.2,
        },
        customdata=summary[["latency_s_min", "latency_s_max", "kernel"]].map(text),
        hovertemplate="%{x}: %{y:.3f} s (%{customdata[0]:.3f} to %{customdata[1]:.3f})<br>"
        "%{customdata[2]}<extra></extra>",
    )
    note = summary.attrs.get("speed_note") or "lower is better; whiskers from fastest to slowest"
    title = f"Time a {summary.attrs.get('drawn', 'picture')} by precision"
    return styled(go.Figure(bars), title, note, x="precision", y="latency, s")


def divergence_by_step(steps: pd.DataFrame, *, floor: pd.DataFrame | None = None) -> go.Figure:
    """Relative L2 of the latents by denoising step: median over the pairs, band from least to most.

    Args:
        steps: rows of :meth:`Comparison.steps` of one or more comparisons.
        floor: the same of the reference against its repeat; its largest value is the floor.
    """
    figure = banded(_taken(steps), _BY_STEP)
    note = add_floor(figure, None if floor is None else _taken(floor), _BY_STEP)
    figure.update_xaxes(tick0=0, dtick=max(1, round(steps["step"].max() / 10)))
    return styled(
        figure,
        "Distance from the reference by denoising step",
        f"median and range over {counted(steps)}{untold(_taken(steps), _BY_STEP)}; {note}",
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


def _taken(steps: pd.DataFrame) -> pd.DataFrame:
    return steps[steps["step"] > 0]  # step 0 is the common noise
