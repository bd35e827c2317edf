"""Colours, texts and titles that all figures share."""

import numpy as np
import plotly.graph_objects as go
import pytest

from workbench.eval.figure_style import (
    ERROR_SCALE,
    GREY,
    beyond,
    colour,
    error_colours,
    shaded,
    styled,
    text,
    with_unit,
)


def test_a_repeat_is_grey_and_an_unknown_precision_has_a_lasting_colour():
    assert colour("BF16 repeat 2") == GREY
    assert colour("W4A16 tuned (iters=50)") == colour("W4A16 tuned (iters=50)")


def test_a_shade_keeps_the_colour():
    assert shaded("#0072B2", 0.15) == "rgba(0,114,178,0.15)"


def test_errors_run_through_the_scale_and_stop_at_its_ends():
    pixels = error_colours(np.array([[-1.0, 0.0, 0.5, 1.0, 2.0]], dtype=np.float32))
    assert pixels.shape == (1, 5, 3)
    assert pixels.dtype == np.uint8
    first, last = (tuple(bytes.fromhex(ERROR_SCALE[i][1:])) for i in (0, -1))
    assert [tuple(pixels[0, i]) for i in (0, 1, 3, 4)] == [first, first, last, last]
    brightness = error_colours(np.linspace(0, 1, 50)[None]).astype(int).sum(axis=-1)[0]
    assert (np.diff(brightness) > 0).all()  # also legible without colours


def test_markup_is_escaped_and_quotes_stay_as_plotly_needs_them():
    assert text('<b>"tea" & milk</b>') == '&lt;b&gt;"tea" &amp; milk&lt;/b&gt;'
    assert text(3.0) == 3.0


def test_an_axis_names_its_unit_where_it_has_one():
    assert [with_unit("PSNR", "dB"), with_unit("SSIM", "")] == ["PSNR, dB", "SSIM"]


@pytest.mark.parametrize(
    ("values", "largest"), [([1.0, 3.0, np.inf, np.nan], 3.0), ([5.0], 5.0), ([np.inf], 0.0)]
)
def test_infinite_values_are_drawn_beyond_all_finite_ones(values, largest):
    assert np.isfinite(beyond(values))
    assert beyond(values) > largest


def test_a_long_note_is_broken_into_lines_and_the_figure_grows():
    short, long = (styled(go.Figure(), "a title", "word " * n, x="x", y="y") for n in (3, 60))
    assert long.layout.title.subtitle.text.count("<br>") == 2
    grown = long.layout.height - short.layout.height
    assert grown == long.layout.margin.t - short.layout.margin.t > 0
    assert short.layout.title.text == "A title"
