"""Figures of layers show every row of their table."""

import json

import numpy as np
import pandas as pd
import pytest

from workbench.eval.figures import to_div
from workbench.eval.layer_figures import (
    TALLEST,
    kinds,
    layer_step_heatmap,
    range_heatmap,
    sensitivity_bars,
    weight_errors,
)


def layer_errors(**layers) -> pd.DataFrame:
    """A row a layer and step; names of layers that are not quantized end in ``norm``."""
    return pd.DataFrame(
        [
            {
                "component": "transformer",
                "name": name,
                "quantized": not name.endswith("norm"),
                "step": step,
                "timestep": 1000.0 - 100 * step,
                "relative_l2": error,
            }
            for name, errors in layers.items()
            for step, error in enumerate(errors)
        ]
    )


def test_numbers_of_blocks_are_taken_out_of_names() -> None:
    names = [
        "transformer_blocks.0.attn.to_q",
        "single_transformer_blocks.12.proj_out",
        "blocks.3.ffn.net.2",
    ]
    assert kinds(names) == ["attn.to_q", "proj_out", "ffn.net"]


def test_weight_errors_has_a_dot_a_linear_and_a_colour_a_scheme() -> None:
    layers = pd.DataFrame(
        {
            "component": "transformer",
            "name": [f"blocks.{i}.ffn" for i in range(4)],
            "scheme": ["FP8", "NVFP4", "FP8", "NVFP4"],
            "relative_error": [0.02, 0.1, 0.03, 0.11],
            "parameters": 64,
        }
    )
    figure = weight_errors(layers)
    assert {trace.name: list(trace.y) for trace in figure.data} == {
        "FP8": [0.02, 0.03],
        "NVFP4": [0.1, 0.11],
    }
    assert len({trace.marker.color for trace in figure.data}) == 2


def test_range_heatmap_is_layers_by_steps_in_the_order_of_the_table() -> None:
    rows = [
        {
            "component": "transformer",
            "name": name,
            "step": step,
            "timestep": 10.0 - step,
            "amax": amax,
        }
        for name, amaxes in (("b", (1, 10)), ("a", (100, 1000)))
        for step, amax in enumerate(amaxes)
    ]
    (heat,) = range_heatmap(pd.DataFrame(rows)).data
    assert list(heat.y) == ["transformer.b", "transformer.a"]
    np.testing.assert_allclose(heat.z, [[0, 1], [2, 3]])
    assert heat.x[1] == "1 (t=9)"


def test_layer_errors_are_layers_by_steps_in_the_order_of_the_table() -> None:
    figure = layer_step_heatmap(layer_errors(b=(0.01, 0.1), a=(0.001, 1.0)))
    (heat,) = figure.data
    assert list(heat.y) == ["transformer.b", "transformer.a"]
    assert list(heat.x) == ["0 (t=1000)", "1 (t=900)"]
    np.testing.assert_allclose(heat.z, [[-2, -1], [-3, 0]])
    assert heat.customdata[1][1] == 1.0
    assert figure.layout.title.subtitle.text == "worst: transformer.a at step 1, 1"
    assert figure.layout.yaxis.autorange == "reversed"


def test_no_error_at_all_is_grey_and_explained_not_the_logarithm_of_zero() -> None:
    heat, zeros = layer_step_heatmap(layer_errors(a=(0.0, 0.1))).data
    assert np.isnan(heat.z[0][0])
    assert zeros.z[0][0] == 0
    assert np.isnan(zeros.z[0][1])
    note = layer_step_heatmap(layer_errors(a=(0.0, 0.0))).layout.title.subtitle.text
    assert note == "grey cells: exactly 0, no error"


def test_errors_that_are_no_number_are_white_and_counted() -> None:
    figure = layer_step_heatmap(layer_errors(a=(np.nan, 0.1), b=(np.inf, 0.2)))
    (heat,) = figure.data
    assert np.isnan(heat.z[:, 0].astype(float)).all()
    assert "white: 2 not measured or not finite" in figure.layout.title.subtitle.text
    assert "worst: transformer.b at step 1, 0.2" in figure.layout.title.subtitle.text


def test_layers_that_are_not_quantized_have_grey_names_in_every_trace() -> None:
    figure = layer_step_heatmap(layer_errors(a=(0.0, 0.1), norm=(0.1, 0.1)))
    grey = "<span style='color:#888888'>transformer.norm</span>"
    assert [list(trace.y) for trace in figure.data] == [["transformer.a", grey]] * 2
    assert "grey names" in figure.layout.title.subtitle.text


def test_many_layers_share_a_bounded_height() -> None:
    many = layer_errors(**{f"blocks.{i}": (0.1,) for i in range(900)})
    assert layer_step_heatmap(many).layout.height < TALLEST + 300


def test_markup_in_names_of_layers_does_not_reach_the_page() -> None:
    figure = layer_step_heatmap(layer_errors(**{"<script>alert(1)</script>": (0.1,)}))
    assert "<script>alert" not in to_div(json.loads(figure.to_json()))


def test_sensitivity_bars_start_with_the_most_sensitive() -> None:
    table = pd.DataFrame(
        {
            "component": "transformer",
            "group": ["a", "b", "c"],
            "scheme": ["NVFP4", "FP8", "NVFP4"],
            "parameters": 8,
            "error_NVFP4": [0.1, 0.3, 0.2],
            "error_FP8": [0.01, 0.02, 0.03],
        }
    )
    figure = sensitivity_bars(table)
    assert list(figure.layout.xaxis.categoryarray) == [f"transformer.{n}" for n in "bca"]
    assert sorted(y for trace in figure.data for y in trace.y) == pytest.approx([0.1, 0.2, 0.3])
