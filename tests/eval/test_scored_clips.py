import numpy as np
import pytest
import torch
from moving_clips import as_uint8, ball_clip, noisy
from PIL import Image

from workbench.errors import ComparisonRefused
from workbench.eval.clips import is_clip
from workbench.eval.metrics import score, score_pairs
from workbench.eval.temporal import jitter

CLIP = as_uint8(ball_clip(4))
OTHER = as_uint8(np.clip(noisy(ball_clip(4), 30), 0, 1))


@pytest.mark.parametrize(
    ("media", "clip"),
    [
        (CLIP, True),
        (list(CLIP), True),
        (tuple(map(Image.fromarray, CLIP)), True),
        (torch.from_numpy(CLIP), True),
        (CLIP[:1], False),  # a picture with a leading one, as ever
        ([CLIP[0]], True),
        (CLIP[0], False),
        (Image.fromarray(CLIP[0]), False),
        ([[0, 1], [1, 0]], False),  # rows of a picture
        ([], False),
    ],
)
def test_what_counts_as_a_clip(media, clip):
    assert is_clip(media) == clip


@pytest.mark.parametrize("form", [list, lambda clip: clip, lambda clip: clip / 255.0])
def test_a_clip_is_scored_in_any_form(form):
    found = score(form(CLIP), form(OTHER), metrics=["psnr_db", "jitter"])
    assert found.values["jitter"] == pytest.approx(jitter(CLIP, OTHER))
    assert 28 < found.values["psnr_db"] < 32
    assert found.frames["frame"].tolist() == [0, 1, 2, 3]
    assert "mae" not in found.frames


def test_metrics_over_time_alone():
    found = score(CLIP, OTHER, metrics="jitter")
    assert list(found.values) == ["jitter"]
    assert found.frames["identical"].tolist() == [False] * 4


def test_unequal_sizes_are_fitted_as_pictures_are():
    found = score(CLIP, OTHER[:, 1:], fit="crop", metrics=["mae"])
    assert any("cropped to the middle 47 x 64" in note for note in found.notes)
    with pytest.raises(ComparisonRefused, match=r"frame 0: .*fit='crop'"):
        score(CLIP, OTHER[:, 1:])


def test_floats_of_another_range_are_scored_when_told():
    values = CLIP / 127.5 - 1
    found = score(values, values, value_range=(-1, 1), metrics=["mae", "flicker_error"])
    assert found.values == {"mae": 0, "flicker_error": 0}


def test_pairs_may_be_clips_and_pictures():
    clip, picture = score_pairs([(CLIP, OTHER), (CLIP[0], OTHER[0])], ["psnr_db"])
    assert clip.values["psnr_db"] != picture.values["psnr_db"]
    assert picture.frames is None


def test_small_clips_say_what_is_missing_unless_it_was_asked_for():
    found = score(CLIP[:, :12, :12], OTHER[:, :12, :12])
    assert "16 x 16" in found.missing["jitter"]
    assert "jitter" not in found.values
    assert found.values["psnr_db"] > 20
    with pytest.raises(ComparisonRefused, match="16 x 16"):
        score(CLIP[:, :12, :12], OTHER[:, :12, :12], metrics=["jitter"])


def test_one_frame_has_no_metrics_over_time():
    found = score([CLIP[0]], [OTHER[0]])
    assert found.missing["jitter"] == "metrics over time need at least 2 frames, got 1"
    with pytest.raises(ComparisonRefused, match="at least 2 frames"):
        score([CLIP[0]], [OTHER[0]], metrics=["jitter"])


def test_a_picture_against_a_clip_is_refused():
    with pytest.raises(ComparisonRefused, match="no clip"):
        score(CLIP, OTHER[0])


def test_align_is_for_clips():
    with pytest.raises(ComparisonRefused, match="align='shorter' is for clips"):
        score(CLIP[0], OTHER[0], align="shorter")


def test_metrics_over_time_of_pictures_are_refused():
    with pytest.raises(ComparisonRefused, match="jitter need at least 2 frames, and this is one"):
        score(CLIP[0], OTHER[0], metrics=["psnr_db", "jitter"])
