"""Scores of every picture, prompt by prompt."""

import json

import numpy as np
import pandas as pd
import pytest

from workbench.eval.figures import to_div
from workbench.eval.metric_table import METRICS
from workbench.eval.prompt_figures import MANY, SHORT, per_prompt_strips

PSNR = METRICS["psnr_db"]
LONG = "an astronaut riding a horse across a sunlit meadow, highly detailed"


def table(scores, precision="FP8"):
    return pd.DataFrame(
        [
            {"precision": precision, "prompt": prompt, "seed": seed, "psnr_db": value}
            for prompt, values in scores.items()
            for seed, value in enumerate(values)
        ]
    )


def ends(line):
    """Pairs of heights of the line marks."""
    return [tuple(line.y[i : i + 2]) for i in range(0, len(line.y), 3)]


def test_a_prompt_is_a_column_worst_first_with_a_dot_a_seed_and_a_line_at_its_median():
    figure = per_prompt_strips(table({"good": [40, 42, 44], "bad": [10, 20, 30]}), PSNR)
    dots, lines = figure.data
    assert list(figure.layout.xaxis.ticktext) == ["bad", "good"]
    assert sorted(dots.y) == [10, 20, 30, 40, 42, 44]
    assert ends(lines) == [(20, 20), (42, 42)]
    assert len({round(x, 6) for x in dots.x}) == 6  # apart, so that none hides another
    assert np.abs(np.asarray(dots.x) - np.round(dots.x)).max() < 0.5


def test_where_lower_is_better_the_worst_prompt_is_the_largest():
    scores = table({"good": [0.1], "bad": [0.5]}).rename(columns={"psnr_db": "lpips"})
    figure = per_prompt_strips(scores, METRICS["lpips"])
    assert list(figure.layout.xaxis.ticktext) == ["bad", "good"]
    assert "lower is closer" in figure.layout.title.subtitle.text


def test_precisions_differ_in_colour_symbol_and_place():
    both = pd.concat([table({"p": [40, 42]}), table({"p": [20, 22]}, "W4A16")])
    first, _, second, _ = per_prompt_strips(both, PSNR).data
    assert [first.name, second.name] == ["FP8", "W4A16"]
    assert first.marker.color != second.marker.color
    assert first.marker.symbol[0] != second.marker.symbol[0]
    assert max(first.x) < min(second.x)


def test_identical_pictures_lie_on_the_top_line_with_another_symbol():
    figure = per_prompt_strips(table({"p": [30, np.inf], "q": [20, np.inf]}), PSNR)
    dots, lines = figure.data
    assert list(dots.marker.symbol) == ["circle", "circle", "star-open", "star-open"]
    top = figure.layout.shapes[0].y0
    assert list(dots.y[2:]) == [top, top]
    assert top > 30
    assert ends(lines) == [(top, top)] * 2  # half of the pairs are identical
    assert "2 identical" in figure.layout.title.subtitle.text


def test_without_identical_pictures_there_is_no_top_line():
    figure = per_prompt_strips(table({"p": [30, 31]}), PSNR)
    assert figure.layout.shapes == ()
    assert "identical" not in figure.layout.title.subtitle.text


def test_what_is_no_number_is_left_out_and_counted():
    figure = per_prompt_strips(table({"p": [30, np.nan, 31]}), PSNR)
    assert sorted(figure.data[0].y) == [30, 31]
    assert "1 not finite left out" in figure.layout.title.subtitle.text


def test_a_metric_without_any_value_is_said_and_nothing_is_drawn():
    figure = per_prompt_strips(table({"p": [np.nan, np.nan]}), PSNR)
    assert "2 not finite left out" in figure.layout.title.subtitle.text
    assert len(figure.data) == 0


def test_a_long_prompt_is_cut_below_the_axis_and_whole_in_the_hover():
    figure = per_prompt_strips(table({LONG: [30]}), PSNR)
    (shown,) = figure.layout.xaxis.ticktext
    assert len(shown) <= SHORT
    assert shown.endswith("…")
    assert figure.data[0].customdata[0][0].replace("<br>", " ") == LONG


def test_two_prompts_with_the_same_beginning_stay_apart():
    figure = per_prompt_strips(table({LONG + " a": [30], LONG + " b": [31]}), PSNR)
    assert len(set(figure.layout.xaxis.tickvals)) == 2


def test_many_prompts_are_numbered():
    figure = per_prompt_strips(table({f"prompt {i}": [i] for i in range(MANY + 1)}), PSNR)
    assert figure.layout.xaxis.ticktext is None
    assert "number" in figure.layout.xaxis.title.text


@pytest.mark.parametrize("precision", ["FP8", "<script>alert(2)</script>"])
def test_markup_does_not_reach_the_page(precision):
    figure = per_prompt_strips(table({"<script>alert(1)</script>": [30]}, precision), PSNR)
    assert "<script>alert" not in to_div(json.loads(figure.to_json()))
