"""Figures of single layers: data frame in, plotly figure out."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from workbench.eval.figure_style import colour, styled, text

ROW_PIXELS = 14  # of a layer, less where there are many
_FEW_DECADES = 3  # up to which a scale has room for 2 and 5 too
TALLEST = 2400  # pixels of all layers
_NOTHING = "#D0D0D0"  # no error: a colour outside the scale
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
    table = _by_layer(ranges, "amax")
    figure = _heatmap(np.log10(table.clip(lower=1e-6)), table, _times(ranges), "largest input")
    note = "one scale covers a whole row under a static scheme: look for rows that change colour"
    return _layered(figure, table, "Largest input by layer and denoising step", note)


def layer_step_heatmap(errors: pd.DataFrame) -> go.Figure:
    """Error of each layer's output at each denoising step; the logarithm as colour.

    Layers run down in the order of the table, which should be the network's. Where there is no
    error at all the cell is grey; what was not measured, or is not finite, is white.

    Args:
        errors: one row a layer and step: component, name, quantized (False is shown in grey
            letters), step, timestep, relative_l2 (0 or larger).
    """
    table = _by_layer(errors, "relative_l2")
    finite = table.where(np.isfinite(table))
    figure = _heatmap(np.log10(finite.where(finite > 0)), table, _times(errors), "relative L2")
    if (table == 0).to_numpy().any():
        figure.add_trace(_zeros(table, figure.data[0].x))
    kept = {str(layer) for layer in _layers(errors)[~errors["quantized"].astype(bool)]}
    figure.update_traces(
        y=[
            f"<span style='color:#888888'>{layer}</span>" if layer in kept else layer
            for layer in table.index
        ]
    )
    return _layered(
        figure, table, "Error by layer and denoising step", _worst(finite, table, bool(kept))
    )


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


def _layers(rows: pd.DataFrame) -> pd.Series:
    return (rows["component"] + "." + rows["name"]).map(text)


def _by_layer(rows: pd.DataFrame, value: str) -> pd.DataFrame:
    """Index layers in the order of the rows, columns steps."""
    table = rows.assign(layer=_layers(rows)).pivot_table(
        index="layer", columns="step", values=value, aggfunc="max", sort=False, dropna=False
    )
    return table.sort_index(axis=1)


def _times(rows: pd.DataFrame) -> list[str]:
    times = rows.groupby("step")["timestep"].first()
    return [f"{step} (t={time:.4g})" for step, time in times.items()]


def _heatmap(
    logarithms: pd.DataFrame, table: pd.DataFrame, times: list[str], title: str
) -> go.Figure:
    return go.Figure(
        go.Heatmap(
            z=logarithms.to_numpy(),
            x=times,
            y=list(table.index),
            customdata=table.to_numpy(),
            colorscale="Viridis",
            colorbar={
                "title": title,
                **_ticks(logarithms),
                "lenmode": "pixels",
                "len": 260,
                "y": 1,
                "yanchor": "top",
            },
            hovertemplate="%{y}<br>step %{x}: %{customdata:.4g}<extra></extra>",
        )
    )


def _ticks(logarithms: pd.DataFrame) -> dict[str, list]:
    """Round numbers of the scale, where the colours are those of their logarithms."""
    values = logarithms.to_numpy()
    values = values[np.isfinite(values)]
    if not len(values):
        return {}
    low, high = values.min(), values.max()
    powers = range(int(np.floor(low)), int(np.ceil(high)) + 1)
    leading = (1,) if high - low > _FEW_DECADES else (1, 2, 5)
    rounds = [digit * 10.0**power for power in powers for digit in leading]
    shown = [one for one in rounds if low <= np.log10(one) <= high]
    return {"tickvals": list(np.log10(shown)), "ticktext": [f"{one:g}" for one in shown]}


def _zeros(table: pd.DataFrame, times: tuple) -> go.Heatmap:
    return go.Heatmap(
        z=np.where(table == 0, 0.0, np.nan),
        x=times,
        y=list(table.index),
        colorscale=[[0, _NOTHING], [1, _NOTHING]],
        showscale=False,
        hovertemplate="%{y}<br>step %{x}: exactly 0<extra></extra>",
    )


def _worst(finite: pd.DataFrame, table: pd.DataFrame, kept: bool) -> str:
    cells = finite.stack()
    notes = []
    if (cells > 0).any():
        layer, step = cells.idxmax()
        notes.append(f"worst: {layer} at step {step}, {cells.max():.3g}")
    if (table == 0).to_numpy().any():
        notes.append("grey cells: exactly 0, no error")
    broken = int((~np.isfinite(table)).to_numpy().sum())
    if broken:
        notes.append(f"white: {broken} not measured or not finite")
    if kept:
        notes.append("grey names: layers that are not quantized")
    return "; ".join(notes)


def _layered(figure: go.Figure, table: pd.DataFrame, title: str, note: str) -> go.Figure:
    row = min(ROW_PIXELS, max(1, TALLEST / max(1, len(table))))
    figure.update_yaxes(autorange="reversed", tickfont_size=9, showgrid=False)
    figure.update_xaxes(tickfont_size=10, showgrid=False)
    styled(figure, title, note, x="denoising step", y="")
    spare = figure.layout.margin.t + 70
    return figure.update_layout(height=max(spare + row * len(table), 430), margin_l=330)


def _names(table: pd.DataFrame) -> list[str]:
    return list(table["component"] + "." + table["group"])
