"""Figures of layers show every row of their table."""

import numpy as np
import pandas as pd
import pytest

from workbench.eval.layer_figures import kinds, range_heatmap, sensitivity_bars, weight_errors


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
