"""Median, range and floor of curves."""

import numpy as np
import pandas as pd

from workbench.eval.bands import Curve, add_floor, banded, untold

LOG = Curve(x="step", y="error", about="step {step} <b>")
PLAIN = Curve(x="step", y="error", about="step {step}", log=False)


def table(precision="FP8", errors=((0.0, 0.2), (0.0, 0.4), (0.0, 0.9))):
    return pd.DataFrame(
        [
            {"precision": precision, "prompt": "p", "seed": seed, "step": step, "error": error}
            for seed, row in enumerate(errors)
            for step, error in enumerate(row, 1)
        ]
    )


def test_a_spread_is_least_median_and_largest_at_each_place():
    shown = PLAIN.spread(table())
    assert shown.loc[2, ["min", "median", "max"]].tolist() == [0.2, 0.4, 0.9]
    assert shown.loc[1, "median"] == 0
    assert shown["about"].tolist() == ["step 1", "step 2"]


def test_zeros_are_gaps_on_a_logarithmic_axis_only():
    assert np.isnan(LOG.spread(table()).loc[1, "median"])
    assert banded(table(), LOG).layout.yaxis.type == "log"
    assert banded(table(), PLAIN).layout.yaxis.type is None


def test_a_filled_band_has_no_gaps():
    upper, lower, line = banded(table(), LOG).data
    assert list(upper.x) == list(lower.x) == [2]
    assert list(line.x) == [1, 2]
    assert lower.fill == "tonexty"


def test_what_is_infinite_is_a_gap_in_line_and_band():
    upper, _, line = banded(table(errors=((0.1, np.inf), (0.2, np.inf))), PLAIN).data
    assert list(upper.x) == [1]
    assert np.isnan(line.y[1])


def test_what_is_said_of_a_place_is_escaped():
    assert banded(table(), LOG).data[-1].customdata[0][0] == "step 1 &lt;b&gt;"


def test_two_precisions_of_one_colour_differ_in_their_dashes():
    both = pd.concat([table("FP8"), table("FP8_PER_CHANNEL_PER_TOKEN")])
    lines = [trace.line for trace in banded(both, LOG).data if trace.name]
    assert lines[0].color == lines[1].color
    assert [line.dash for line in lines] == ["solid", "dash"]


def test_the_floor_is_the_largest_value_of_the_repeats():
    figure = banded(table(), LOG)
    assert add_floor(figure, table("BF16 repeat"), LOG).startswith("grey: the noise floor")
    assert figure.data[-1].name == "noise floor"
    assert figure.data[-1].y[1] == 0.9


def test_no_floor_and_a_floor_of_zero_are_said_and_not_drawn():
    figure = banded(table(), PLAIN)
    assert add_floor(figure, None, PLAIN) == "no floor measured"
    assert "bit by bit" in add_floor(figure, table(errors=((0.0, 0.0),)), PLAIN)
    assert len(figure.data) == 3


def test_values_that_are_not_drawn_are_counted():
    broken = table(errors=((0.1, np.nan), (0.2, np.inf), (0.3, 0.4)))
    assert (
        untold(broken, PLAIN) == "; 1 infinite values are gaps; 1 that are no number are left out"
    )
    assert untold(table(), PLAIN) == ""
    first = table(errors=((np.nan, 0.1), (np.nan, 0.2)))  # as a metric between frames at frame 0
    assert untold(first, PLAIN) == ""


def test_a_floor_without_a_finite_value_is_not_said_to_be_zero():
    for value in (np.nan, np.inf):
        said = add_floor(banded(table(), PLAIN), table(errors=((0.0, value),)), PLAIN)
        assert said == "the floor is no finite number: look at the reference itself"
