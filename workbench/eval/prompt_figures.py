"""Scores of every picture, prompt by prompt: data frame in, plotly figure out."""

from __future__ import annotations

import textwrap
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from workbench.eval.figure_style import GREY, beyond, colour, styled, text, with_unit

if TYPE_CHECKING:
    from workbench.eval.metric_table import Metric

SHORT = 26  # characters of a prompt below the axis
HOVER = 60  # characters of a line of a prompt in the hover
MANY = 24  # prompts that still have room for their words
_SPREAD = 0.7  # share of a prompt's width that its dots take
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross")


def per_prompt_strips(table: pd.DataFrame, metric: Metric) -> go.Figure:
    """Every pair as a dot, one column a prompt, worst prompt first; lines at the medians.

    Identical pictures whose value is infinite (PSNR) lie on the dotted line at the top. Values that
    are no number are left out and counted in the note.

    Args:
        table: one row a precision and pair: precision, prompt, seed, and the metric.
        metric: a value of :data:`workbench.eval.metric_table.METRICS`.
    """
    shown, lost = _placed(table, metric)
    edge = beyond(shown["value"])
    figure = go.Figure()
    for order, (precision, rows) in enumerate(shown.groupby("precision", sort=False)):
        symbol = _SYMBOLS[order % len(_SYMBOLS)]
        figure.add_traces(_strip(str(precision), rows, edge, symbol, text(metric.unit)))
    identical = int(np.isinf(shown["value"]).sum())
    if identical:
        figure.add_hline(y=edge, line={"color": GREY, "dash": "dot", "width": 1})
    words = shown["prompt"].nunique() <= MANY
    figure.update_xaxes(**_prompt_axis(shown, words))
    note = [f"one dot a seed, line: median of the prompt; {metric.closer}"]
    note += [f"open stars on the top line: {identical} identical (infinite)"] * (identical > 0)
    note += [f"{lost} not finite left out"] * (lost > 0)
    return styled(
        figure,
        f"{text(metric.title)} by prompt",
        "; ".join(note),
        x="prompt, worst first" if words else "number of the prompt, worst first",
        y=with_unit(metric.title, metric.unit),
    ).update_layout(
        hovermode="closest", height=520 if words else 430, margin_b=140 if words else 60
    )


def _placed(table: pd.DataFrame, metric: Metric) -> tuple[pd.DataFrame, int]:
    """Rows to draw with their value and place across; how many are left out."""
    value = table[metric.key].astype(float)
    ascending = metric.better == "higher"
    known = np.isfinite(value) | (np.isposinf(value) & ascending)
    shown = table.loc[known, ["precision", "prompt", "seed"]].assign(value=value[known])
    medians = shown.groupby("prompt")["value"].median()
    worst = medians.sort_values(key=metric.farness, ascending=False, kind="stable")
    places = {prompt: i for i, prompt in enumerate(worst.index)}
    column = shown["prompt"].map(places).astype(float)  # of no rows the map would stay text
    precisions = list(dict.fromkeys(shown["precision"]))
    lane = _SPREAD / max(1, len(precisions))
    middle = (
        shown["precision"]
        .map({one: lane * (i - (len(precisions) - 1) / 2) for i, one in enumerate(precisions)})
        .astype(float)
    )
    seeds = {seed: i for i, seed in enumerate(sorted(set(shown["seed"])))}
    aside = shown["seed"].map(seeds) - (len(seeds) - 1) / 2
    jitter = 0.7 * lane * aside / max(1, len(seeds) - 1)
    middle += column
    placed = shown.assign(
        column=column, start=middle - lane / 2, stop=middle + lane / 2, x=middle + jitter
    )
    return placed, int((~known).sum())


def _strip(
    precision: str, rows: pd.DataFrame, edge: float, symbol: str, unit: str
) -> list[go.Scatter]:
    shade = colour(precision)
    rows = rows.sort_values("value", kind="stable")  # the legend shows the symbol of the first
    infinite = np.isinf(rows["value"])
    values = [f"{value:.4g} {unit}" for value in rows["value"].replace(np.inf, np.nan)]
    told = ["identical" if same else value for same, value in zip(infinite, values, strict=True)]
    dots = go.Scatter(
        x=rows["x"],
        y=rows["value"].clip(upper=edge),
        name=text(precision),
        legendgroup=precision,
        mode="markers",
        marker={
            "color": shade,
            "size": 7,
            "opacity": 0.75,
            "symbol": np.where(infinite, "star-open", symbol),
        },
        customdata=np.column_stack([rows["prompt"].map(_wrapped), rows["seed"], told]),
        hovertemplate=f"{text(precision)}, seed %{{customdata[1]}}: %{{customdata[2]}}<br>"
        "%{customdata[0]}<extra></extra>",
    )
    medians = rows.groupby(["start", "stop"])["value"].median().clip(upper=edge)
    lines = go.Scatter(
        x=list(chain.from_iterable((start, stop, None) for start, stop in medians.index)),
        y=list(chain.from_iterable((value, value, None) for value in medians)),
        mode="lines",
        line={"color": shade, "width": 2.5},
        legendgroup=precision,
        showlegend=False,
        hoverinfo="skip",
    )
    return [dots, lines]


def _prompt_axis(shown: pd.DataFrame, words: bool) -> dict:
    prompts = shown.sort_values("column").drop_duplicates("column")["prompt"]
    axis = {"range": [-0.5, len(prompts) - 0.5], "showgrid": False, "zeroline": False}
    if not words:  # no room for them: the hover has them
        return axis
    return axis | {
        "tickvals": list(range(len(prompts))),
        "ticktext": [_short(prompt) for prompt in prompts],
        "tickangle": -30,
    }


def _wrapped(prompt: str) -> str:
    return "<br>".join(textwrap.wrap(text(prompt), HOVER, break_long_words=False))


def _short(prompt: str) -> str:
    return text(prompt if len(prompt) <= SHORT else prompt[: SHORT - 1].rstrip() + "…")
