import base64
import io

import numpy as np
import pytest
from moving_clips import as_uint8, ball_clip, noisy
from PIL import Image

from workbench.errors import ComparisonRefused
from workbench.eval import clip_encoding
from workbench.eval.clip_encoding import LADDER, companded, encoded

CLIP = [Image.fromarray(frame) for frame in as_uint8(ball_clip(5))]
OTHER = [Image.fromarray(frame) for frame in as_uint8(np.clip(noisy(ball_clip(5), 35), 0, 1))]
CLIPS = {"BF16": CLIP, "FP8": OTHER}


def decoded(text):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(text))).convert("RGB"))


def test_small_clips_stay_as_they_are_pixel_by_pixel():
    found = encoded(CLIPS)
    for name, frames in CLIPS.items():
        for text, frame in zip(found.clips[name], frames, strict=True):
            assert np.array_equal(decoded(text), np.asarray(frame))
    assert (found.differences, found.size) == ({}, (64, 48))
    assert found.how == "shown lossless"


@pytest.mark.parametrize("budget", [60_000, 30_000, 12_000, 6_000])
def test_what_is_embedded_fits_the_budget_and_says_how(budget):
    found = encoded(CLIPS, budget)
    assert found.characters <= budget
    assert "metrics and differences are of the lossless frames" in found.how
    assert decoded(found.clips["FP8"][4]).shape == (*found.size[::-1], 3)
    assert list(found.differences) == ["FP8"]


def test_a_larger_budget_never_looks_worse():
    sizes = [encoded(CLIPS, budget).size[0] for budget in (6_000, 12_000, 30_000, 90_000)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1] == 64


def test_the_estimate_is_near_what_comes_out():
    rung = LADDER[0]
    whole = clip_encoding._encoded(CLIPS, rung, (64, 48)).characters
    assert clip_encoding._estimate(CLIPS, rung) == pytest.approx(whole, rel=0.1)


def test_differences_are_of_the_lossless_frames_and_small_ones_survive():
    found = encoded(CLIPS, 30_000)
    true = np.abs(np.asarray(CLIP[2], np.int16) - np.asarray(OTHER[2]))
    shown = 255 * (decoded(found.differences["FP8"][2]) / 255) ** 2
    assert found.size == (64, 48)
    assert shown.mean() == pytest.approx(true.mean(), rel=0.25)
    between_compressed = np.abs(
        decoded(found.clips["BF16"][2]).astype(int) - decoded(found.clips["FP8"][2])
    ).mean()
    assert abs(shown.mean() - true.mean()) < abs(between_compressed - true.mean())


def test_companding_gives_the_difference_back_to_a_few_percent():
    a = np.zeros((1, 256, 3), np.uint8)
    b = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2)
    back = 255 * (np.asarray(companded(*map(Image.fromarray, (a, b)))) / 255.0) ** 2
    assert back == pytest.approx(b, abs=1.05, rel=0)
    assert (back[:, 0] == 0).all()


def test_a_budget_that_nothing_fits_is_refused():
    with pytest.raises(ComparisonRefused, match="do not fit into budget=100 characters, even at"):
        encoded(CLIPS, 100)


@pytest.mark.parametrize(
    ("other", "said"),
    [(OTHER[:4], "FP8: 4 of"), ([one.resize((32, 32)) for one in OTHER], r"\(32, 32\)")],
)
def test_clips_that_cannot_run_side_by_side_are_refused(other, said):
    with pytest.raises(ComparisonRefused, match=said):
        encoded({"BF16": CLIP, "FP8": other})
