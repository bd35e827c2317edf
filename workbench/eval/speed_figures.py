"""Latency, memory and stages of benchmarks: data frame in, plotly figure out."""

from __future__ import annotations

from itertools import cycle

import pandas as pd
import plotly.graph_objects as go

from workbench.eval.figure_style import GREY, PALETTE, colour, shaded, styled, text
from workbench.eval.speed_labels import cautions, noted, run_labels, spread_words
from workbench.eval.speed_parts import ABOVE
from workbench.eval.speed_spread import spread_name
from workbench.eval.units import memory_unit

_LEGEND = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"}
_FOOT, _TILTED_FOOT = 90, 190  # pixels below the plot, for names and legend
_LETTERS = 90  # of all names together, beyond which they do not fit side by side
IDLE = "idle"
_CLEAR = "rgba(0,0,0,0)"
COMPONENTS = {
    "transformer": PALETTE[3],
    "transformer_2": PALETTE[5],
    "text_encoder": PALETTE[0],
    "text_encoder_2": PALETTE[1],
    "vae": PALETTE[2],
    "vae.decode": PALETTE[2],
}
"""Their colours in every figure."""
_OTHERS = (PALETTE[4], "#F0E442", "#444444", *PALETTE[:4], PALETTE[5], "#8C6D31")
"""One for each kind of kernel that there is."""


def memory_by_component(parts: pd.DataFrame, *, by_rank: bool = False) -> go.Figure:
    """Stacked bars: weights by component, and what the run needs above them.

    Args:
        parts: rows of :func:`workbench.eval.speed_parts.memory_parts` or of ``planned_parts``.
        by_rank: a bar for each rank; else all ranks of a run together.
    """
    names = run_labels(parts)
    if by_rank:
        names = names + ", rank " + parts["rank"].astype(str)
    rows = parts.assign(bar=names.map(text))
    totals = rows.groupby("bar")["bytes"].sum()
    unit, size = memory_unit(totals.max())
    figure = _stacked(
        rows.assign(shown=rows["bytes"] / size), "part", "shown", last=ABOVE, unit=unit
    )
    _mark_load_peaks(figure, rows, size, unit)
    note = noted(
        "lower is better; grey: the peak of a run above its weights",
        "" if by_rank or parts["rank"].nunique() == 1 else "all ranks together",
        text(cautions(parts, times=False)),
    )
    styled(figure, "Memory by component", note, x="", y=f"memory, {unit}")
    return _with_legend(figure.update_layout(barmode="stack"), rows["bar"])


def latency_with_spread(table: pd.DataFrame, requests: pd.DataFrame) -> go.Figure:
    """Median latency as bars with its interval or range, and every request as a dot.

    Only the runs with the fewest requests in flight are shown: more of them wait for each other.

    Args:
        table: rows of :func:`workbench.eval.speed.speed_table`.
        requests: rows of :func:`workbench.eval.speed_parts.request_rows` of the same benchmarks.
    """
    fewest = table["concurrency"].min()
    rows = table[table["concurrency"] == fewest]
    names = run_labels(rows).map(text)
    named = dict(zip(rows["key"], names, strict=True))
    dots = requests[requests["key"].isin(named)]
    figure = go.Figure([_medians(rows, names), _dots(dots["key"].map(named), dots["latency_s"])])
    figure.update_yaxes(rangemode="tozero")
    note = noted(
        f"lower is better; {fewest} in flight; bars: median; whiskers: {spread_words(rows)}",
        text(cautions(rows)),
    )
    styled(figure, "Latency of a request", note, x="", y="latency, s")
    return _with_legend(figure, names)


def _medians(rows: pd.DataFrame, names: pd.Series) -> go.Bar:
    middle = rows["latency_s"]
    return go.Bar(
        x=names,
        y=middle,
        name="median",
        marker={"color": [shaded(colour(str(name)), 0.55) for name in rows["precision"]]},
        error_y={
            "array": (rows["latency_s_high"] - middle).clip(lower=0),
            "arrayminus": (middle - rows["latency_s_low"]).clip(lower=0),
            "color": "#111",
            "thickness": 1.2,
        },
        customdata=rows[["latency_s_low", "latency_s_high", "requests"]].assign(
            spread=rows["rounds"].map(spread_name)
        ),
        hovertemplate="%{x}: median %{y:.4~g} s, %{customdata[0]:.4~g} to %{customdata[1]:.4~g} "
        "(%{customdata[3]}), %{customdata[2]} requests<extra></extra>",
    )


def _dots(names: pd.Series, latencies: pd.Series) -> go.Box:
    return go.Box(
        x=names,
        y=latencies,
        name="one request",
        boxpoints="all",
        jitter=0.5,
        pointpos=0,
        line_color=_CLEAR,  # the dots alone
        fillcolor=_CLEAR,
        marker={"size": 6, "color": "#222222", "opacity": 0.55},
        hoveron="points",
        hovertemplate="%{x}: %{y:.4~g} s<extra></extra>",
    )


def stage_bars(stages: pd.DataFrame) -> go.Figure:
    """Stacked bars: seconds of each component in a profiled run of one request.

    Args:
        stages: rows of :func:`workbench.eval.speed_parts.stage_seconds`.
    """
    rows = stages.assign(bar=run_labels(stages).map(text))
    figure = _stacked(rows, "stage", "seconds", last="rest", unit="s")
    note = noted(
        "one request in a run of its own, which waits for the device around each component",
        text(cautions(stages)),
    )
    styled(figure, "Seconds by component", note, x="", y="time, s")
    return _with_legend(figure.update_layout(barmode="stack"), rows["bar"])


def kernel_bars(shares: pd.DataFrame) -> go.Figure:
    """Stacked bars: share of the wall time by kind of kernel, and idle.

    On CPU the kinds are those of operators.

    Args:
        shares: rows of :func:`workbench.eval.speed_parts.kernel_shares`; a column random_weights is
            heeded where there is one.
    """
    rows = shares.assign(bar=shares["precision"].map(text), percent=100 * shares["share"])
    figure = _stacked(rows, "kind", "percent", last=IDLE, unit="%")
    walls = rows.groupby("precision", sort=False)["wall_s"].first()
    took = ", ".join(f"{text(name)} {wall:.3g} s" for name, wall in walls.items())
    unseen = ", ".join(map(text, shares.attrs.get("unseen", ())))
    note = noted(
        f"of one request, longer for being watched: {took}; kernels that overlap add up"
        if took
        else "",
        f"the profiler saw no kernel of {unseen}" if unseen else "",
        text(cautions(shares)),
    )
    styled(figure, "Where the time goes", note, x="", y="share of the wall time, %")
    return _with_legend(figure.update_layout(barmode="stack"), rows["bar"])


def _stacked(rows: pd.DataFrame, part: str, value: str, *, last: str, unit: str) -> go.Figure:
    """One bar a ``bar``, one colour a part; the part named ``last`` is grey and on top."""
    sums = rows.groupby(["bar", part], sort=False)[value].sum().unstack(part).fillna(0)
    sums = sums.loc[rows["bar"].unique()]
    others = cycle(_OTHERS)
    parts = [name for name in sums if name != last]
    shades = {name: COMPONENTS.get(str(name)) or next(others) for name in parts}
    bars = [
        go.Bar(
            x=sums.index,
            y=sums[name],
            name=text(name),
            marker_color=shade,
            hovertemplate=f"%{{x}}: {text(name)} %{{y:.4~g}} {unit}<extra></extra>",
        )
        for name, shade in {**shades, **({last: GREY} if last in sums else {})}.items()
    ]
    figure = go.Figure(bars)
    figure.update_xaxes(type="category")
    for name, total in sums.sum(axis=1).items():
        figure.add_annotation(
            x=name, y=total, text=f"{total:.4g}", showarrow=False, yanchor="bottom"
        )
    return figure


def _mark_load_peaks(figure: go.Figure, rows: pd.DataFrame, size: int, unit: str) -> None:
    """A mark at the highest that loading took, where books were kept."""
    ranks = rows.drop_duplicates(["bar", "rank"])
    peaks = ranks.groupby("bar", sort=False)["load_peak_bytes"].sum(min_count=1).dropna() / size
    if peaks.empty:
        return
    figure.add_trace(
        go.Scatter(
            x=peaks.index,
            y=peaks,
            name="peak while loading",
            mode="markers",
            marker={"symbol": "line-ew", "size": 40, "line": {"width": 3, "color": "#111111"}},
            hovertemplate=f"%{{x}}: %{{y:.4~g}} {unit} while loading<extra></extra>",
        )
    )


def _with_legend(figure: go.Figure, names: pd.Series) -> go.Figure:
    """Room for the names of the bars, aslant where they are long, and the legend below."""
    aslant = sum(map(len, names.unique())) > _LETTERS
    figure.update_xaxes(tickangle=-30 if aslant else 0)
    foot = _TILTED_FOOT if aslant else _FOOT
    height = figure.layout.height + foot - _FOOT + 40
    return figure.update_layout(
        legend=_LEGEND, margin_b=foot, height=height, hovermode="closest", showlegend=True
    )
