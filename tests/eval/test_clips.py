import numpy as np
import pytest
from moving_clips import as_uint8, ball_clip
from PIL import Image

from workbench.errors import ComparisonRefused
from workbench.eval.clips import prepare_clips

CLIP = as_uint8(ball_clip(3))


def dark(frames, side=4):
    return np.zeros((frames, 5, side, 3), np.uint8)


@pytest.mark.parametrize(
    "given",
    [
        CLIP,
        list(CLIP),
        tuple(CLIP),
        [Image.fromarray(frame) for frame in CLIP],
        np.moveaxis(CLIP, 3, 1),
        iter(CLIP),
    ],
    ids=["array", "list", "tuple", "pictures", "channels first", "iterator"],
)
def test_every_usual_kind_of_clip_becomes_one_array(given):
    found = prepare_clips(CLIP, given)
    assert (found.candidate == CLIP).all()
    assert (found.reference.dtype, found.data_range, found.notes) == (np.uint8, 255.0, ())


def test_floats_beside_uint8_make_both_float():
    found = prepare_clips(CLIP, CLIP / 255.0)
    assert found.reference.dtype == found.candidate.dtype == np.float64
    assert (found.reference == found.candidate).all()
    assert found.data_range == 1.0


def test_value_range_is_that_of_every_frame():
    found = prepare_clips(CLIP, CLIP / 127.5 - 1, value_range=(-1, 1))
    np.testing.assert_allclose(found.candidate, found.reference, atol=1e-12)


def test_unequal_numbers_of_frames_are_refused_with_both_and_the_next_step():
    with pytest.raises(ComparisonRefused, match=r"reference has 49 .*candidate 45.*align='shorter"):
        prepare_clips(dark(49), dark(45))


@pytest.mark.parametrize(
    ("frames", "note"),
    [
        ((49, 45), "reference cut from 49 to 45 frames"),
        ((45, 49), "candidate cut from 49 to 45 frames"),
    ],
)
def test_align_drops_the_tail_of_the_longer_and_says_so(frames, note):
    a, b = (np.arange(n, dtype=np.uint8)[:, None, None, None] + dark(n) for n in frames)
    found = prepare_clips(a, b, align="shorter")
    assert len(found.reference) == 45
    assert (found.reference == found.candidate).all()
    assert found.notes == (note,)


def test_align_of_equal_clips_does_nothing():
    assert prepare_clips(CLIP, CLIP, align="shorter").notes == ()


def test_an_unknown_align_is_refused():
    with pytest.raises(ComparisonRefused, match="align='longer' is unknown; pass 'shorter'"):
        prepare_clips(CLIP, CLIP, align="longer")


@pytest.mark.parametrize("frames", [0, 1])
def test_too_few_frames_are_refused(frames):
    with pytest.raises(ComparisonRefused, match=f"at least 2 frames, got {frames}; generate a vid"):
        prepare_clips(dark(frames), dark(frames), least=2)


def test_sizes_must_match_and_the_frame_is_named():
    with pytest.raises(ComparisonRefused, match=r"frame 0: the reference has 5 x 4 .* 5 x 6"):
        prepare_clips(dark(3), dark(3, side=6))


def test_a_value_that_is_no_number_is_refused_by_its_frame():
    wrong = CLIP / 255.0
    wrong[2, 1, 7, 0] = np.nan
    with pytest.raises(ComparisonRefused, match=r"frame 2: the candidate .* row 1, column 7"):
        prepare_clips(CLIP, wrong)


def test_frames_of_one_clip_must_be_alike():
    frames = [*dark(2), *dark(1, side=6)]
    with pytest.raises(ComparisonRefused, match=r"frame 2 of the reference is uint8 \(5, 6, 3\)"):
        prepare_clips(frames, frames)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (np.zeros((5, 4, 3), np.uint8), r"shape \(5, 4, 3\), which is no clip"),
        (np.zeros((1, 2, 5, 4, 3), np.uint8), "no clip"),
        (Image.new("RGB", (4, 5)), "type Image, which is no clip"),
        ("clip.mp4", "type str, which is no clip"),
        (7, "holds no frames"),
        (None, "holds no frames"),
    ],
)
def test_what_is_no_clip_is_refused(wrong, named):
    with pytest.raises(ComparisonRefused, match=named):
        prepare_clips(CLIP, wrong)


def test_a_note_of_every_frame_is_said_once_and_clamped_values_are_summed():
    clear = np.concatenate([CLIP, np.full_like(CLIP[..., :1], 255)], axis=3)
    assert prepare_clips(CLIP, clear).notes == ("alpha of the candidate laid on white",)
    stray = CLIP / 255.0
    stray[:, 0, 0, 0] = 1.01
    assert prepare_clips(CLIP, stray).clamped == len(CLIP)
