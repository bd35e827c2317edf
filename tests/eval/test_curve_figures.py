"""Errors along the schedule and along frequencies."""

import json

import numpy as np
import pandas as pd
import pytest

from workbench.eval.curve_figures import error_spectrum_figure, share_of_final_error, velocity_error
from workbench.eval.figures import to_div

HOSTILE = "<script>alert(1)</script>"


def rows(precision="FP8", seeds=(0, 1), **columns):
    """One row a seed and place; lists are columns, and values grow with the seed."""
    one = pd.DataFrame({"precision": precision, "prompt": HOSTILE, **columns})
    value = list(columns)[-1]
    return pd.concat([one.assign(seed=s, **{value: one[value] * (1 + s)}) for s in seeds])


def velocity(scale=1.0, **of):
    return rows(
        step=[1, 2, 3],
        timestep=[1000.0, 600.0, 200.0],
        relative_l2=np.multiply(scale, [3, 2, 1]),
        **of,
    )


def test_a_spectrum_is_drawn_by_frequency_on_a_log_axis():
    figure = error_spectrum_figure(rows(radius=[0.1, 0.3, 0.5], relative_error=[0.1, 0.2, 0.4]))
    line = figure.data[-1]
    assert list(line.x) == [0.1, 0.3, 0.5]
    np.testing.assert_allclose(line.y, [0.15, 0.3, 0.6])
    assert figure.layout.yaxis.type == "log"
    assert figure.layout.xaxis.title.text == "spatial frequency, cycles a pixel"
    assert "2 pairs" in figure.layout.title.subtitle.text


def test_velocity_error_runs_from_noise_to_picture_with_its_floor():
    figure = velocity_error(velocity(), floor=velocity(0.1, precision="BF16 repeat", seeds=(0,)))
    assert figure.layout.xaxis.autorange == "reversed"
    assert [trace.name for trace in figure.data] == [None, None, "FP8", "noise floor"]
    assert list(figure.data[2].x) == [200.0, 600.0, 1000.0]
    assert figure.data[2].customdata[-1][0] == "step 1, timestep 1000.0"
    np.testing.assert_allclose(figure.data[-1].y, [0.1, 0.2, 0.3])


def test_a_share_of_one_is_marked_and_zero_is_drawn():
    steps = rows(seeds=(0,), step=[0, 1, 2], share_of_final=[0.0, 0.6, 1.0])
    figure = share_of_final_error(steps)
    assert list(figure.data[-1].y) == [0.0, 0.6, 1.0]
    assert figure.layout.shapes[0].y0 == figure.layout.shapes[0].y1 == 1
    assert figure.layout.yaxis.tickformat == ".0%"
    other = share_of_final_error(steps.rename(columns={"share_of_final": "share"}), column="share")
    assert list(other.data[-1].y) == [0.0, 0.6, 1.0]


def test_pairs_that_end_alike_have_no_share_and_are_counted():
    steps = rows(seeds=(0,), step=[0, 1, 2], share_of_final=[0.0, 0.6, 1.0])
    alike = steps.assign(seed=7, share_of_final=0.0)
    figure = share_of_final_error(pd.concat([steps, alike]))
    assert "1 pair; 1 that end alike left out" in figure.layout.title.subtitle.text
    assert list(figure.data[-1].y) == [0.0, 0.6, 1.0]


def test_pairs_whose_latents_are_no_number_are_not_said_to_end_alike():
    steps = rows(seeds=(0,), step=[0, 1, 2], share_of_final=[0.0, 0.6, 1.0])
    broken = steps.assign(seed=7, share_of_final=[0.0, np.nan, np.nan])
    said = share_of_final_error(pd.concat([steps, broken])).layout.title.subtitle.text
    assert "1 pair; 1 with an end that is no number left out" in said
    assert "alike" not in said


@pytest.mark.parametrize(
    "figure",
    [
        error_spectrum_figure(
            rows(precision=HOSTILE, radius=[0.1, 0.2], relative_error=[0.1, 0.2])
        ),
        velocity_error(velocity(precision=HOSTILE)),
        share_of_final_error(rows(precision=HOSTILE, step=[0, 1], share_of_final=[0.0, 1.0])),
    ],
    ids=["spectrum", "velocity", "share"],
)
def test_markup_does_not_reach_the_page_and_nothing_is_loaded(figure):
    page = to_div(json.loads(figure.to_json()))
    assert "<script>alert" not in page
    assert 'src="http' not in page
