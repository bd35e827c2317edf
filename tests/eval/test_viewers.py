import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from workbench.errors import ComparisonRefused
from workbench.eval.figure_style import error_colours
from workbench.eval.viewers import MAP_SIDE, error_map, error_picture, slider

HOSTILE = '"><script>alert(1)</script>'
NAMES = ("BF16", "FP8")


def plain(value, side=32):
    return Image.new("RGB", (side, side), (value, value, value))


def pictures(html):
    uris = re.findall(r'src="data:image/[^,]+,([^"]+)"', str(html))
    return [Image.open(io.BytesIO(base64.b64decode(uri))) for uri in uris]


def errors(value=0.25, side=32):
    return np.full((side, side), value, dtype=np.float32)


def test_slider_holds_the_reference_below_and_the_candidate_above():
    html = slider((plain(10), plain(20)), labels=NAMES)
    assert [picture.getpixel((0, 0))[0] for picture in pictures(html)] == [10, 20]
    assert str(html).index("reference BF16") < str(html).index("candidate FP8")
    assert 'type="range"' in str(html)


def test_error_map_shows_both_pictures_and_the_error_in_its_colours():
    html = error_map((plain(10), plain(20)), errors(), labels=NAMES)
    shown = [np.asarray(picture)[0, 0] for picture in pictures(html)]
    np.testing.assert_array_equal(shown[:2], [[10] * 3, [20] * 3])
    np.testing.assert_array_equal(shown[2], error_colours(errors())[0, 0])
    assert "FLIP error, mean 0.250, largest 0.250" in str(html)
    assert "linear-gradient" in str(html)


def test_large_pictures_are_made_smaller():
    big = plain(1, side=700)
    html = error_map((big, big), errors(side=700), labels=NAMES)
    assert {picture.size for picture in pictures(html)} == {(MAP_SIDE, MAP_SIDE)}


@pytest.mark.parametrize("wrong", [-0.1, 1.1, np.nan, np.inf])
def test_errors_outside_their_range_are_refused(wrong):
    some = errors()
    some[3, 4] = wrong
    with pytest.raises(ComparisonRefused, match="must lie within 0 to 1"):
        error_map((plain(1), plain(2)), some, labels=NAMES)


def test_a_map_of_another_shape_is_refused():
    tall = Image.new("RGB", (16, 32))
    assert error_picture(np.zeros((32, 16), np.float32), tall.size).size == tall.size
    with pytest.raises(ComparisonRefused, match=r"shape \(16, 32\) for pictures of 32 x 16"):
        error_picture(np.zeros((16, 32), np.float32), tall.size)


@pytest.mark.parametrize(
    "viewer",
    [slider, lambda both, **named: error_map(both, errors(), **named)],
    ids=["slider", "error_map"],
)
class TestEveryViewer:
    def test_refuses_unequal_sizes(self, viewer):
        with pytest.raises(ComparisonRefused, match=r"\(32, 32\) and \(16, 16\)"):
            viewer((plain(1), plain(1, side=16)), labels=NAMES)

    def test_escapes_what_it_is_given(self, viewer):
        html = viewer((plain(1), plain(2)), labels=(HOSTILE, HOSTILE), caption=HOSTILE)
        assert "<script>alert" not in str(html)

    def test_loads_nothing_and_has_an_id_of_its_own(self, viewer):
        one, other = (str(viewer((plain(1), plain(2)), labels=NAMES)) for _ in range(2))
        assert "http" not in one
        assert re.findall(r'id="([^"]+)"', one) != re.findall(r'id="([^"]+)"', other)


SLIDES = """
const [root, other] = document.querySelectorAll(".wb"), slider = root.querySelector("input");
const stage = root.querySelector(".stage"), box = stage.getBoundingClientRect(), seen = [];
const at = (one) => Math.round(parseFloat(getComputedStyle(one).getPropertyValue("--at")));
seen.push(at(root));
slider.value = 20; slider.dispatchEvent(new Event("input")); seen.push(at(root));
const press = (key) => slider.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
press("ArrowRight"); seen.push(at(root)); press("PageDown"); seen.push(at(root));
const point = (type, share) => stage.dispatchEvent(new PointerEvent(type,
  {clientX: box.left + share * box.width, clientY: box.top + 5, buttons: 1, bubbles: true}));
point("pointerdown", 0.75); seen.push(at(root)); point("pointermove", 2); seen.push(at(root));
seen.push(slider.value, slider.getAttribute("aria-valuetext"), at(other));
document.title = seen.join(" ");
"""


@pytest.mark.browser
def test_the_divider_follows_bar_keys_and_pointer_of_its_own_slider(tmp_path, open_page):
    file = tmp_path / "page.html"
    two = "".join(str(slider((plain(1), plain(9)), labels=NAMES)) for _ in range(2))
    file.write_text(f"<!DOCTYPE html><meta charset=utf-8>{two}<script>{{{SLIDES}}}</script>")
    page = open_page(file)
    assert page.console == []
    assert "<title>50 20 22 12 75 100 100 100 % reference 50</title>" in page.dom
