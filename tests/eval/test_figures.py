import json

import numpy as np
import pandas as pd
import pytest

from workbench.eval import compare, summary
from workbench.eval.figures import colour, divergence_by_step, latency_bars, memory_bars, to_div


@pytest.fixture
def floor(reference, repeat):
    return compare(reference, repeat)


@pytest.fixture
def table(reference, floor, make_set):
    return summary(
        reference, [make_set("FP8", noise=0.02), make_set("W4A16", noise=0.05)], floor=floor
    )


def test_every_figure_has_a_title_and_axes_with_units(table, floor):
    for figure, unit in (
        (memory_bars(table), "peak memory, MiB"),
        (latency_bars(table), "latency, s"),
        (divergence_by_step(floor.steps()), "relative L2 of the latents"),
    ):
        assert figure.layout.title.text
        assert figure.layout.yaxis.title.text == unit
        assert figure.layout.xaxis.title.text


def test_a_precision_has_one_colour_in_all_figures(table, floor, reference, make_set):
    bars = memory_bars(table).data[0]
    by_name = dict(zip(bars.x, bars.marker.color, strict=True))
    assert len(set(by_name.values())) == len(by_name)
    steps = compare(reference, make_set("FP8", noise=0.02), floor=floor).steps()
    line = next(trace for trace in divergence_by_step(steps).data if trace.name == "FP8")
    assert line.line.color == by_name["FP8"] == colour("FP8")


def test_whiskers_run_from_fastest_to_slowest(table):
    bars = latency_bars(table).data[0]
    assert bars.error_y.array[0] == pytest.approx(0.1)
    assert bars.error_y.arrayminus[0] == pytest.approx(0.1)
    assert "Speed is not meaningful" in latency_bars(table).layout.title.subtitle.text


def test_divergence_leaves_the_common_noise_out_and_draws_the_floor(reference, floor, make_set):
    steps = compare(reference, make_set("FP8", noise=0.02), floor=floor).steps()
    figure = divergence_by_step(steps, floor=floor.steps())
    assert figure.layout.yaxis.type == "log"
    assert [trace.name for trace in figure.data] == [None, None, "FP8", "noise floor"]
    assert all(min(trace.x) == 1 for trace in figure.data)


def test_a_floor_of_zero_is_said_in_words(reference, make_set):
    floor = compare(reference, make_set(repeat=1))
    steps = compare(reference, make_set("FP8", noise=0.02), floor=floor).steps()
    figure = divergence_by_step(steps, floor=floor.steps())
    assert "repeats bit by bit" in figure.layout.title.subtitle.text
    assert "noise floor" not in [trace.name for trace in figure.data]


def test_steps_that_do_not_differ_are_gaps_not_zeros_on_the_log_axis():
    steps = pd.DataFrame(
        {
            "precision": "FP8",
            "prompt": "p",
            "seed": 0,
            "step": [0, 1, 2],
            "timestep": [np.nan, 2.0, 1.0],
            "relative_l2": [0.0, 0.0, 0.1],
            "cosine": 1.0,
        }
    )
    median = divergence_by_step(steps).data[-1]
    assert np.isnan(median.y[0])
    assert median.y[1] == 0.1


def test_markup_in_names_does_not_reach_the_page(table):
    hostile = table.assign(kernel="<script>alert(1)</script>")
    assert "<script>alert" not in to_div(json.loads(latency_bars(hostile).to_json()))
