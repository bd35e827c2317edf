import base64
import io
import json
import re

import numpy as np
import pytest
from PIL import Image

from workbench.errors import ComparisonRefused, SpecError
from workbench.eval.media import GAIN, data_uri, difference, flip, grid, scrubber


def plain(value, side=32):
    return Image.new("RGB", (side, side), (value, value, value))


def opened(uri):
    return Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))


def sources(html):
    return re.findall(r'src="(data:image/[^"]+)"', str(html))


def test_a_difference_is_amplified_and_saturates():
    assert difference(plain(100), plain(103)).getpixel((0, 0)) == (3 * GAIN,) * 3
    assert difference(plain(0), plain(255)).getpixel((0, 0)) == (255,) * 3


def test_a_png_data_uri_is_lossless():
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3)).astype(np.uint8)
    assert np.array_equal(np.asarray(opened(data_uri(Image.fromarray(pixels)))), pixels)


def test_flip_holds_both_pictures_and_their_difference():
    html = flip((plain(10), plain(20)), labels=("BF16", "FP8"))
    assert [opened(uri).getpixel((0, 0))[0] for uri in sources(html)] == [10, 20, 10 * GAIN]
    assert str(html).count("hidden>") == 2  # without JavaScript the reference shows


def test_flip_refuses_unequal_sizes():
    with pytest.raises(ComparisonRefused, match=r"\(32, 32\) and \(16, 16\)"):
        flip((plain(1), plain(1, side=16)), labels=("a", "b"))


def test_scrubber_has_a_frame_a_step_and_starts_at_the_last():
    html = str(scrubber({"BF16": [plain(0), plain(50)], "FP8": [plain(0), plain(60)]}, [999.0]))
    assert len(sources(html)) == 3
    assert "initial noise" in html
    assert "step 1 of 1, timestep 999.0" in html
    assert opened(sources(html)[2]).getpixel((5, 5))[0] == pytest.approx(10 * GAIN, abs=3)


def test_scrubber_keeps_reference_candidate_and_difference_of_every_step():
    pictures = {"BF16": [plain(0), plain(50)], "FP8": [plain(0), plain(60)]}
    html = str(scrubber(pictures, [999.0]))
    frames = json.loads(re.search(r"frames = (\[\[.*?\]\])", html)[1])
    shown = [[opened(uri).getpixel((5, 5))[0] for uri in row] for row in frames]
    np.testing.assert_allclose(shown, [[0, 50], [0, 60], [0, 10 * GAIN]], atol=3)
    assert re.findall("<figcaption>(.*?)<", html) == ["BF16", "FP8", f"difference of FP8 x {GAIN}"]


def test_a_scrubber_of_twenty_steps_stays_small():
    side, steps = 256, 20
    source = np.random.default_rng(0)
    blobs = source.integers(0, 256, (side // 8, side // 8, 3)).astype(np.uint8)
    noise = np.asarray(Image.fromarray(blobs).resize((side, side), Image.Resampling.BICUBIC))
    ramp = np.tile(np.linspace(0, 255, side)[:, None, None], (1, side, 3))
    grain = source.normal(0, 8, ramp.shape)  # detail of the reference that the candidate has lost
    runs = {
        name: [
            Image.fromarray(
                (picture * i / steps + noise * (1 - i / steps)).clip(0, 255).astype(np.uint8)
            )
            for i in range(steps + 1)
        ]
        for name, picture in (("BF16", ramp + grain), ("FP8", ramp))
    }
    assert len(str(scrubber(runs, [1.0] * steps))) < 1.5e6


def test_scrubber_refuses_a_missing_frame():
    with pytest.raises(ComparisonRefused, match="'FP8' has 1 frames for 1 timesteps; pass 2"):
        scrubber({"BF16": [plain(0)] * 2, "FP8": [plain(0)]}, [999.0])


def test_grid_shows_one_prompt_at_all_precisions(reference, make_set):
    sets = {
        "BF16": reference,
        "BF16 repeat": make_set(repeat=1),
        "FP8": make_set("FP8", noise=0.02),
    }
    html = str(grid(sets, prompt=1, seed=7))
    assert len(sources(html)) == 3
    assert "identical" in html
    assert re.search(r"<b>FP8</b>\d\d\.\d dB", html)
    assert len(sources(grid(sets))) == 6


def test_grid_refuses_a_prompt_or_seed_that_is_not_there(reference):
    for wrong in ({"prompt": 9}, {"prompt": "a dragon"}, {"seed": 5}):
        with pytest.raises(SpecError, match=r"has no prompt .* it has \['a teapot"):
            grid({"BF16": reference}, **wrong)


def test_prompts_are_escaped(reference):
    html = str(grid({"<i>BF16</i>": reference}, prompt=1))
    assert "<b>car</b>" not in html
    assert "a red &lt;b&gt;car&lt;/b&gt; &amp; a tree" in html
    assert "<i>" not in html
    shown = str(flip((plain(1), plain(2)), labels=("<i>", '"><i>'), caption="<i>"))
    assert "<i>" not in shown


def test_several_live_on_one_page():
    pictures = (plain(1), plain(2))
    ids = [re.search(r'id="(wb-\w+)"', str(flip(pictures, labels=("a", "b"))))[1] for _ in range(2)]
    assert ids[0] != ids[1]


def test_nothing_is_loaded_from_elsewhere(reference):
    for html in (flip((plain(1), plain(2)), labels=("a", "b")), grid({"BF16": reference})):
        assert "http" not in str(html)


FLIPS = """
const root = document.querySelector(".wb"), images = [...root.querySelectorAll("img")];
const shown = () => images.findIndex((image) => !image.hidden);
const seen = [shown()];
root.querySelector(".stage").click(); seen.push(shown());
root.dispatchEvent(new KeyboardEvent("keydown", {key: " ", bubbles: true})); seen.push(shown());
root.querySelectorAll("[data-show]")[2].click(); seen.push(shown());
const auto = root.querySelector("[data-auto]");
auto.click(); seen.push(auto.ariaPressed); auto.click(); seen.push(auto.ariaPressed);
document.title = seen.join(" ");
"""
SLIDES = """
const root = document.querySelector(".wb"), slider = root.querySelector("input");
const image = root.querySelector("img"), seen = [];
for (const step of [0, 1]) {
  slider.value = step; slider.dispatchEvent(new Event("input"));
  seen.push(image.src.length > 100 && root.querySelector("output").textContent);
}
document.title = seen.join(" | ");
"""


@pytest.mark.browser
@pytest.mark.parametrize(
    ("html", "script", "expected"),
    [
        (flip((plain(1), plain(9)), labels=("a", "b")), FLIPS, "0 1 0 2 true false"),
        (
            scrubber({"a": [plain(1), plain(9)], "b": [plain(1), plain(5)]}, [999.0]),
            SLIDES,
            "initial noise | step 1 of 1, timestep 999.0",
        ),
    ],
    ids=["flip", "scrubber"],
)
def test_what_is_clicked_and_typed_changes_the_picture(tmp_path, open_page, html, script, expected):
    file = tmp_path / "page.html"
    file.write_text(f"<!DOCTYPE html><meta charset=utf-8>{html}<script>{{{script}}}</script>")
    page = open_page(file)
    assert page.console == []
    assert f"<title>{expected}</title>" in page.dom


@pytest.mark.browser
def test_a_console_error_would_be_seen(tmp_path, open_page):
    file = tmp_path / "page.html"
    file.write_text("<script>nowhere()</script>")
    assert "nowhere is not defined" in open_page(file).console[0]
