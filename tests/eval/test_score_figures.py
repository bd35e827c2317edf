"""Scores by precision beside the floor."""

import json

import numpy as np
import pandas as pd
import pytest

from workbench.eval.figures import to_div
from workbench.eval.metric_table import METRICS
from workbench.eval.score_figures import scores_with_floor

NAN, INF = float("nan"), float("inf")


def row(precision, median, against="above", *, n=8, identical=0):
    around = {
        name: median + by
        for name, by in zip(
            ("low", "high", "q1", "q3", "min", "max"), (-1, 1, -2, 2, -4, 4), strict=True
        )
    }
    return {
        "precision": precision,
        "n": n,
        "median": median,
        **around,
        "identical": identical,
        "against_floor": against,
    }


def stats(*rows, floor=None):
    table = pd.DataFrame(rows)
    table.attrs["floor"] = floor
    return table


def drawn(figure):
    return {trace.name: trace for trace in figure.data}


def said(figure):
    return [note.text for note in figure.layout.annotations]


def test_each_precision_is_a_dot_with_its_interval_and_whisker_in_the_order_of_the_table():
    table = stats(row("W4A16", 24.0), row("INT8", 46.0, "inside the floor"))
    figure = scores_with_floor(table, METRICS["psnr_db"])
    traces = drawn(figure)
    assert list(traces["median"].x) == [24.0, 46.0]
    assert list(traces["95 % interval of the median"].x) == [23.0, 25.0, None, 45.0, 47.0, None]
    assert list(traces["middle half of the pairs"].x) == [22.0, 26.0, None, 44.0, 48.0, None]
    assert list(figure.layout.yaxis.categoryarray) == ["W4A16", "INT8"]
    assert figure.layout.xaxis.title.text == "PSNR, dB"
    assert figure.layout.title.subtitle.text.startswith("higher is closer; 0 of 16 pairs")


def test_what_lies_inside_the_floor_is_hollow_and_said_beside_it():
    table = stats(row("W4A16", 24.0), row("INT8", 46.0, "inside the floor"))
    figure = scores_with_floor(table, METRICS["psnr_db"])
    colours = drawn(figure)["median"].marker
    assert colours.color[0] == colours.line.color[0]
    assert colours.color[1] == "#ffffff"
    assert said(figure) == ["error above the floor", "inside the floor"]


def test_the_floor_is_a_band_across():
    table = stats(row("FP8", 30.0), floor={"low": 44.0, "high": 49.0})
    figure = scores_with_floor(table, METRICS["psnr_db"])
    (band,) = figure.layout.shapes
    assert (band.x0, band.x1) == (44.0, 49.0)
    assert "noise floor" in said(figure)
    assert figure.layout.xaxis.range[1] > 49.0


@pytest.mark.parametrize(
    ("floor", "words"),
    [
        (None, "no floor measured"),
        ({"low": NAN, "high": NAN}, "no floor measured"),
        ({"low": INF, "high": INF}, "the floor is bit-exact"),
    ],
)
def test_a_floor_that_cannot_be_drawn_is_said_in_words(floor, words):
    figure = scores_with_floor(stats(row("FP8", 30.0), floor=floor), METRICS["psnr_db"])
    assert words in figure.layout.title.subtitle.text
    assert figure.layout.shapes == ()


def test_a_floor_at_the_value_of_identical_ones_is_said():
    figure = scores_with_floor(stats(row("FP8", 0.9), floor={"low": 1, "high": 1}), METRICS["ssim"])
    assert "the floor is exactly 1, as of identical ones" in figure.layout.title.subtitle.text


def test_pairs_without_a_value_are_counted():
    table = stats(row("FP8", 0.1), row("INT8", 0.2)).assign(left_out=[1, 2])
    note = scores_with_floor(table, METRICS["flip"]).layout.title.subtitle.text
    assert "; 3 without a value left out" in note
    assert "left out" not in scores_with_floor(stats(row("FP8", 1)), METRICS["flip"]).to_json()


def test_a_floor_without_an_upper_end_runs_to_the_edge():
    table = stats(row("FP8", 30.0), floor={"low": 44.0, "high": INF})
    figure = scores_with_floor(table, METRICS["psnr_db"])
    assert 44.0 < figure.layout.shapes[0].x1 < INF


@pytest.mark.parametrize("median", [INF, NAN])
def test_identical_pictures_lie_at_the_named_edge(median):
    same = row("FP8", median, "identical", n=8, identical=8)
    figure = scores_with_floor(stats(row("INT8", 46.0), same), METRICS["psnr_db"])
    assert drawn(figure)["median"].x[1] > 48.0
    assert np.isfinite(drawn(figure)["median"].x[1])
    assert "all identical" in said(figure)
    assert "8 of 16 pairs identical" in figure.layout.title.subtitle.text


def test_the_edge_is_named_only_where_something_is_infinite():
    same = row("FP8", INF, "identical", identical=8)
    assert "infinite" in said(scores_with_floor(stats(same), METRICS["psnr_db"]))
    assert "infinite" not in said(scores_with_floor(stats(row("FP8", 1.0)), METRICS["psnr_db"]))


def test_a_precision_without_numbers_keeps_its_row():
    broken = row("FP8", NAN, "not finite")
    figure = scores_with_floor(stats(row("INT8", 46.0), broken), METRICS["psnr_db"])
    assert np.isnan(drawn(figure)["median"].x[1])
    assert list(drawn(figure)["95 % interval of the median"].y) == ["INT8", "INT8", None]
    assert said(figure)[-1] == "not finite"


def test_lower_is_closer_where_it_is():
    figure = scores_with_floor(stats(row("FP8", 0.1)), METRICS["lpips"])
    assert figure.layout.title.subtitle.text.startswith("lower is closer")


def test_markup_does_not_reach_the_page():
    hostile = "<script>alert(1)</script>"
    table = stats(row(hostile, 20.0, hostile), floor={"low": 44.0, "high": 49.0})
    page = to_div(json.loads(scores_with_floor(table, METRICS["psnr_db"]).to_json()))
    assert "<script>alert" not in page
