import re

import numpy as np
import pytest
from moving_clips import as_uint8, ball_clip, every_fourth_shifted, noisy
from PIL import Image

from workbench.errors import ComparisonRefused
from workbench.eval.players import FrameCurve, players, unmoved
from workbench.eval.temporal_metrics import KNOWN

HOSTILE = "<script>alert(1)</script> & \"quoted\" 'too'"
NAN, INFINITY = float("nan"), float("inf")


def pictures(clip):
    return [Image.fromarray(frame) for frame in as_uint8(np.clip(clip, 0, 1))]


CLIP = ball_clip(5)
CLIPS = {
    "BF16": pictures(CLIP),
    "FP8": pictures(every_fourth_shifted(CLIP)),
    "INT8": pictures(noisy(CLIP, 35)),
}
PSNR = FrameCurve(
    metric=KNOWN["psnr_db"],
    values={"FP8": [INFINITY, INFINITY, INFINITY, 20.5, INFINITY], "INT8": [35, 36, 34, 35, 33.0]},
    floor=[INFINITY] * 5,
)
JITTER = FrameCurve(
    metric=KNOWN["jitter"],
    values={"FP8": [NAN, 0, 0, 2, 2], "INT8": [NAN, 0.1, 0.1, 0.1, 0.1]},
    floor=[NAN, 0.05, 0, 0, 0],
)


def test_text_is_escaped_everywhere():
    clips = {HOSTILE: CLIPS["BF16"], HOSTILE + "2": CLIPS["FP8"]}
    curve = FrameCurve(metric=KNOWN["jitter"], values={HOSTILE + "2": [NAN, 0, 0, 2, 2]})
    page = str(players(clips, fps=8, curves=[curve], caption=HOSTILE))
    assert "<script>alert" not in page


def test_it_loads_nothing_and_has_an_id_of_its_own():
    one, other = (str(players(CLIPS, fps=8)) for _ in range(2))
    assert re.findall(r'(?:src|href)="http', one) == []
    assert "fetch(" not in one
    assert re.search(r'id="([^"]+)"', one)[1] != re.search(r'id="([^"]+)"', other)[1]


def test_no_candidate_is_refused():
    with pytest.raises(ComparisonRefused, match="got 1 clip"):
        players({"BF16": CLIPS["BF16"]}, fps=8)


def test_what_is_said_of_the_floor():
    page = str(players(CLIPS, fps=8, curves=[PSNR, JITTER]))
    assert "dB, higher is closer; the floor is bit-exact" in page
    assert "pixels a frame, lower is closer; grey, dashed: the noise floor" in page
    without = FrameCurve(metric=KNOWN["jitter"], values=JITTER.values)
    assert "no floor measured" in str(players(CLIPS, fps=8, curves=[without]))


def test_lines_of_one_colour_have_dashes_of_their_own():
    clips = CLIPS | {"FP8_PER_CHANNEL_PER_TOKEN": CLIPS["FP8"]}
    values = {name: [NAN, 0, 0, 2, 2] for name in list(clips)[1:]}
    page = str(players(clips, fps=8, curves=[FrameCurve(metric=KNOWN["jitter"], values=values)]))
    looks = re.findall(r'"colour": "(#\w+)", "dash": "([^"]*)"', page)
    assert looks[0][0] == looks[2][0]
    assert [dash for _, dash in looks] == ["", "", "10 4"]


def test_the_worst_frame_of_a_signed_metric_is_the_farthest():
    drift = FrameCurve(metric=KNOWN["subject_drift"], values={"FP8": [NAN, 0, -0.2, 0.1, 0]})
    page = str(players({name: CLIPS[name] for name in ("BF16", "FP8")}, fps=8, curves=[drift]))
    assert '"middle": 0.0' in page
    assert "no unit, nearer to 0 is closer" in page


PLAYS = """
const root = document.querySelector(".wb"), find = (what) => root.querySelector(what);
const said = [], note = () => said.push(find("output").textContent.match(/frame (\\d+)/)[1]);
const sum = (canvas) => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data
  .reduce((total, value, i) => total + (i % 4 < 3 ? value : 0), 0);
const wait = () => new Promise((done) => setTimeout(done, 300));
(async () => {
  await wait(); note();
  const [fp8, int8] = root.querySelectorAll("canvas[data-apart]");
  const at3 = sum(fp8); find("[data-step='1']").click(); await wait(); note();
  said.push(at3 > 0, sum(fp8) === 0, sum(int8) > 0);
  const eight = sum(int8); find("[data-gain]").value = "16";
  find("[data-gain]").dispatchEvent(new Event("change")); said.push(sum(int8) / eight);
  find("[data-step='1']").click(); note();
  find("input").value = 2; find("input").dispatchEvent(new Event("input")); note();
  find("[data-worst]").click(); note(); said.push(find(".legend").textContent);
  find("[data-metric]").value = "jitter of the frame";
  find("[data-metric]").dispatchEvent(new Event("change"));
  const box = find("svg").getBoundingClientRect();
  find("svg").dispatchEvent(new PointerEvent("pointerdown",
    {clientX: box.left + box.width * 0.3, clientY: box.top + 9, buttons: 1, bubbles: true}));
  note(); said.push(find("[data-cursor]").getAttribute("x1"));
  root.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowLeft", bubbles: true})); note();
  const [one, two] = root.querySelectorAll("[data-candidate]"); one.click();
  said.push(root.querySelectorAll("figure:not([hidden])").length, find(".legend").textContent);
  two.click(); said.push(two.getAttribute("aria-pressed"));
  find("[data-play]").click(); await new Promise((done) => setTimeout(done, 1200));
  said.push(find("[data-play]").getAttribute("aria-pressed"));
  find("[data-play]").click(); said.push(find("[data-play]").getAttribute("aria-pressed"));
  document.title = said.join("; ");
})();
"""


@pytest.mark.browser
def test_one_clock_moves_clips_differences_curve_and_legend(tmp_path, open_page):
    file = tmp_path / "page.html"
    page = str(players(CLIPS, fps=8, curves=[PSNR, JITTER], start=3))
    file.write_text(f"<!DOCTYPE html><meta charset=utf-8>{page}<script>{{{PLAYS}}}</script>")
    seen = open_page(file)
    assert seen.console == []
    said = re.search("<title>(.*)</title>", seen.dom)[1].split("; ")
    assert said[:5] == ["3", "4", "true", "true", "true"]
    assert float(said[5]) == pytest.approx(2, abs=0.02)  # a gain of 16 after 8
    assert said[6:10] == ["0", "2", "3", "FP8 20.5 dBINT8 35 dB"]
    assert said[10:13] == ["1", "294.25", "0"]
    assert said[13:] == ["3", "INT8 –", "true", "true", "false"]


STORED = """
setTimeout(() => {
  const one = document.querySelector("canvas[data-apart]");
  const data = one.getContext("2d").getImageData(0, 0, one.width, one.height).data;
  let total = 0; data.forEach((value, i) => { if (i % 4 < 3) total += value; });
  document.title = total / (one.width * one.height * 3);
}, 1000);
"""


@pytest.mark.browser
def test_compressed_clips_show_the_difference_of_the_lossless_ones(tmp_path, open_page):
    reference, other = CLIPS["BF16"], CLIPS["INT8"]
    file = tmp_path / "page.html"
    page = str(players({"BF16": reference, "INT8": other}, fps=8, budget=30_000))
    assert "Shown compressed (WebP" in page
    file.write_text(f"<!DOCTYPE html><meta charset=utf-8>{page}<script>{STORED}</script>")
    seen = open_page(file)
    true = np.abs(np.asarray(reference[0], np.int16) - np.asarray(other[0])).mean()
    assert seen.console == []
    assert float(re.search("<title>(.*)</title>", seen.dom)[1]) == pytest.approx(8 * true, rel=0.25)


def test_a_floor_that_could_not_be_told_is_not_said_to_be_exact():
    jitter = KNOWN["jitter"]
    assert unmoved([NAN, 0.0, 0.0], jitter).startswith("the floor is bit-exact")
    assert unmoved([NAN, NAN], jitter) == "the floor could not be told"
    assert unmoved([INFINITY, INFINITY], KNOWN["psnr_db"]).startswith("the floor is bit-exact")
