"""Figures of single layers: data frame in, plotly figure out."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from workbench.eval.figures import colour, styled

ROW_PIXELS = 14
_NUMBER = r"\.\d+(?=\.|$)"


def weight_errors(layers: pd.DataFrame) -> go.Figure:
    """Relative weight error of each linear, one column a kind of linear, one colour a scheme.

    Args:
        layers: as made by :meth:`workbench.records.Checkpoint.layer_table`: component, name,
            scheme, relative_error, parameters.
    """
    shown = layers.assign(kind=kinds(layers["name"]))
    figure = go.Figure()
    figure.add_traces(
        [
            go.Box(
                x=rows["kind"],
                y=rows["relative_error"],
                name=str(scheme),
                marker_color=colour(str(scheme)),
                boxpoints="all",
                jitter=0.4,
                pointpos=0,
                line_width=1,
                customdata=rows[["component", "name", "parameters"]],
                hovertemplate="%{customdata[0]}.%{customdata[1]}<br>%{y:.4f}, %{customdata[2]:,} "
                "parameters<extra></extra>",
            )
            for scheme, rows in shown.groupby("scheme", sort=False)
        ]
    )
    figure.update_xaxes(tickangle=-35)
    figure.update_yaxes(rangemode="tozero")
    note = "one dot a linear; ||dequantized - original|| / ||original||"
    return styled(
        figure, "Weight error by kind of layer", note, x="kind of layer", y="relative error"
    ).update_layout(height=520, margin_b=150)


def range_heatmap(ranges: pd.DataFrame) -> go.Figure:
    """Largest input of each linear at each denoising step; the logarithm as colour.

    Args:
        ranges: as made by :meth:`workbench.records.Checkpoint.range_table`: component, name, step,
            timestep, amax.
    """
    table = ranges.assign(layer=ranges["component"] + "." + ranges["name"]).pivot_table(
        index="layer", columns="step", values="amax", aggfunc="max", sort=False
    )
    times = ranges.groupby("step")["timestep"].first().reindex(table.columns)
    figure = go.Figure(
        go.Heatmap(
            z=np.log10(table.to_numpy().clip(min=1e-6)),
            x=[f"{step} (t={time:.3g})" for step, time in times.items()],
            y=list(table.index),
            customdata=table.to_numpy(),
            colorscale="Viridis",
            colorbar={"title": "log10"},
            hovertemplate="%{y}<br>step %{x}: %{customdata:.4g}<extra></extra>",
        )
    )
    figure.update_yaxes(autorange="reversed", tickfont_size=9)
    height = 160 + ROW_PIXELS * len(table)
    note = "one scale covers a whole row under a static scheme: look for rows that change colour"
    return styled(
        figure, "Largest input by layer and denoising step", note, x="denoising step", y=""
    ).update_layout(height=height, margin_l=330)


def sensitivity_bars(table: pd.DataFrame) -> go.Figure:
    """What each group costs the transformer's output in the small scheme, by what it was given.

    Args:
        table: as made by :meth:`workbench.records.Checkpoint.sensitivity_table`: component, group,
            scheme (chosen), parameters, and one column ``error_SCHEME`` for each scheme.
    """
    errors = [column for column in table if str(column).startswith("error_")]
    ordered = table.sort_values(errors[0], ascending=False)
    figure = go.Figure()
    figure.add_traces(
        [
            go.Bar(
                x=rows["component"] + "." + rows["group"],
                y=rows[errors[0]],
                name=f"written in {scheme}",
                marker_color=colour(str(scheme)),
                customdata=rows[[*errors, "parameters"]],
                hovertemplate="%{x}<br>"
                + "<br>".join(
                    f"{name.removeprefix('error_')}: %{{customdata[{i}]:.3e}}"
                    for i, name in enumerate(errors)
                )
                + "<extra></extra>",
            )
            for scheme, rows in ordered.groupby("scheme", sort=False)
        ]
    )
    figure.update_xaxes(categoryorder="array", categoryarray=_names(ordered), showticklabels=False)
    note = f"error of the output with this group alone in {errors[0].removeprefix('error_')}"
    return styled(
        figure, "Sensitivity by layer", note, x="layer, most sensitive first", y="relative L2"
    )


def kinds(names: Iterable[str]) -> list[str]:
    """Names of linears with the numbers of their blocks taken out: ``blocks.3.ffn`` -> ``ffn``."""
    plain = pd.Series(list(names), dtype=str).str.replace(_NUMBER, "", regex=True)
    return list(plain.str.replace(r"^(?:single_)?(?:transformer_)?blocks\.", "", regex=True))


def _names(table: pd.DataFrame) -> list[str]:
    return list(table["component"] + "." + table["group"])
