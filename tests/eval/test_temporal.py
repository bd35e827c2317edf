from itertools import pairwise

import numpy as np
import pytest
from moving_clips import (
    as_uint8,
    ball_clip,
    blurred,
    every_fourth_shifted,
    noisy,
    pan_clip,
    texture,
)

from workbench.errors import ComparisonRefused
from workbench.eval.clip_shift import jitter, shift_error, shift_scores, shifts
from workbench.eval.clips import prepare_clips
from workbench.eval.optical_flow import motions
from workbench.eval.temporal import (
    MotionMagnitude,
    flicker,
    flicker_error,
    motion_error,
    motion_magnitude,
    temporal_flickering,
    warping,
    warping_error,
)

CLIP = ball_clip()
ERRORS = [flicker_error, warping_error, motion_error, shift_error, jitter]


def still(frames=4):
    return np.repeat(CLIP[:1], frames, axis=0)


def tiny(*levels):
    """Frames of 2 x 2, each of one level."""
    return np.array(levels, np.uint8)[:, None, None, None] + np.zeros((2, 2, 3), np.uint8)


@pytest.mark.parametrize("clip", [CLIP, as_uint8(CLIP)], ids=["floats", "uint8"])
@pytest.mark.parametrize("error", ERRORS)
def test_identical_clips_give_exactly_zero(error, clip):
    assert error(clip, clip.copy()) == 0.0


@pytest.mark.parametrize("error", [*ERRORS[:3], jitter, motion_magnitude])
def test_one_frame_has_nothing_over_time(error):
    with pytest.raises(ComparisonRefused, match="at least 2 frames, got 1"):
        error(CLIP[:1], CLIP[:1])


def test_one_frame_has_a_shift():
    assert shift_error(CLIP[:1], CLIP[:1]) == 0.0


@pytest.mark.parametrize("error", ERRORS)
def test_unequal_clips_are_refused_unless_aligned(error):
    with pytest.raises(ComparisonRefused, match="reference has 9 frames and the candidate 5"):
        error(CLIP, CLIP[:5])
    assert error(CLIP, CLIP[:5], align="shorter") == 0.0


def test_flicker_by_hand():
    candidate = tiny(0, 51)
    candidate[1, 0, 0] = 102  # one pixel of four, off by 51 of 255
    assert flicker_error(tiny(0, 51), candidate) == pytest.approx(0.25 * 0.2)


def test_flicker_counts_the_way_there_and_back():
    found = flicker(prepare_clips(tiny(0, 0, 0, 0), tiny(0, 51, 0, 0)))
    assert found == pytest.approx([0.2, 0.2, 0.0])


def test_the_largest_flicker_is_two():
    assert flicker_error(tiny(0, 255), tiny(255, 0)) == 2.0


@pytest.mark.parametrize("white", [255, 1])
def test_flicker_matches_its_formula(white):
    a, b = CLIP, np.clip(noisy(CLIP, 25), 0, 1)
    if white == 255:
        a, b = as_uint8(a), as_uint8(b)
    change = np.diff(b.astype(float), axis=0) - np.diff(a.astype(float), axis=0)
    expected = np.abs(change).mean(axis=(1, 2, 3)) / white
    np.testing.assert_allclose(flicker(prepare_clips(a, b)), expected, rtol=1e-12)
    assert flicker_error(a, b) == pytest.approx(expected.mean())


def test_an_error_that_stays_does_not_flicker():
    assert flicker_error(CLIP, CLIP + 0.1) == pytest.approx(0, abs=1e-15)
    pattern = noisy(np.zeros((1, *CLIP.shape[1:])), 30)
    assert flicker_error(CLIP, CLIP + pattern) == pytest.approx(0, abs=1e-15)


def test_warping_error_of_a_pan_that_goes_on_is_near_zero():
    other = pan_clip(2, seed=0)
    assert abs(warping_error(pan_clip(2), other * 0.9)) < 1e-4
    assert warping_error(pan_clip(2), every_fourth_shifted(other)) > 1e-3


def test_warping_follows_the_reference_rather_than_comparing_neighbours():
    """Another texture that pans alike fits; one that stands still does not."""
    reference, alike = pan_clip(2), pan_clip(2, seed=5)
    unmoved = np.repeat(alike[:1], len(alike), axis=0)
    assert warping_error(reference, alike) < 0.1 * warping_error(reference, unmoved)


def test_warping_of_a_still_clip_is_its_mean_square():
    """Without motion every pixel counts, and the excess is that of the candidate's own change."""
    reference = still(2)
    candidate = reference + np.array([0, 0.1])[:, None, None, None]
    clips = prepare_clips(reference, candidate)
    assert warping(clips, motions(clips.reference)) == pytest.approx([0.01], rel=1e-5)


def test_a_blur_warps_better_than_the_reference():
    assert warping_error(CLIP, blurred(CLIP, 1.0)) < 0


def test_warping_is_no_number_where_nothing_can_be_followed():
    clips = prepare_clips(CLIP, CLIP)
    lost = [m._replace(matched=np.zeros_like(m.matched)) for m in motions(CLIP)]
    assert np.isnan(warping(clips, lost)).all()


def test_gray_clips_warp():
    gray = CLIP[..., :1]
    assert warping_error(gray, gray) == 0.0
    assert warping_error(gray, noisy(gray, 25)) > 0


def test_a_still_clip_has_no_motion_and_a_ratio_of_one():
    found = motion_magnitude(still(), still())
    assert found == (0.0, 0.0)
    assert (found.ratio, found.error) == (1.0, 0.0)


def test_motion_of_a_pan_is_its_step():
    found = motion_magnitude(pan_clip(1), pan_clip(2))
    assert found == pytest.approx((1, 2), rel=0.2)
    assert motion_error(pan_clip(1), pan_clip(2)) == found.error == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize(
    ("both", "ratio", "error"),
    [((2, 1), 0.5, 1), ((1, 4), 4, 2), ((0, 1), np.inf, np.inf), ((1, 0), 0, np.inf)],
)
def test_ratio_of_motion_by_hand(both, ratio, error):
    found = MotionMagnitude(*both)
    assert (found.ratio, found.error) == (ratio, error)


def test_a_clip_that_freezes_has_lost_its_motion():
    found = motion_magnitude(CLIP, still(len(CLIP)))
    assert (found.candidate, found.ratio) == (0.0, 0.0)


def test_a_shift_that_stays_has_no_jitter():
    moved = np.roll(CLIP, (1, 3), axis=(1, 2))
    assert shift_error(CLIP, moved) == pytest.approx(np.hypot(1, 3), abs=1e-3)
    assert jitter(CLIP, moved) == pytest.approx(0, abs=1e-3)


def test_every_fourth_frame_shifted_by_two_pixels_is_found_exactly():
    faulty = every_fourth_shifted(CLIP)
    expected = np.zeros((9, 2))
    expected[[3, 7], 0] = 2
    np.testing.assert_allclose(shifts(prepare_clips(CLIP, faulty)), expected, atol=1e-3)
    assert shift_error(CLIP, faulty) == pytest.approx(4 / 9, abs=1e-3)
    assert jitter(CLIP, faulty) == pytest.approx(1.0, abs=1e-3)  # 4 of 8 transitions, 2 pixels each


def test_frames_without_a_shift_are_left_out():
    other = noisy(CLIP, 45)
    other[4] = texture(np.random.default_rng(9), *CLIP.shape[1:3])
    found = shifts(prepare_clips(CLIP, other))
    assert np.isnan(found[4]).all()
    assert np.isfinite(np.delete(found, 4, axis=0)).all()
    assert shift_error(CLIP, other) == pytest.approx(0, abs=0.1)
    assert jitter(CLIP, other) == pytest.approx(0, abs=0.1)


def test_no_shift_at_all_is_no_number():
    other = np.stack([texture(np.random.default_rng(s), 48, 64) for s in range(50, 59)])
    assert np.isnan(shift_error(CLIP, other))
    assert np.isnan(jitter(CLIP, other))


@pytest.mark.parametrize(("lost", "told"), [(8, False), (5, False), (4, True)])
def test_a_given_first_frame_speaks_for_none_of_the_others(lost, told):
    other = np.concatenate([CLIP[:1], noisy(CLIP[1:], 45)])
    other[9 - lost :] = np.random.default_rng(1).random((lost, *CLIP.shape[1:]))
    assert np.isfinite([shift_error(CLIP, other), jitter(CLIP, other)]).tolist() == [told] * 2
    clips = prepare_clips(CLIP, other, value_range=(0, 1))
    assert shift_scores(clips, shifts(clips)).found == pytest.approx(1 - lost / 8)


def test_temporal_flickering_by_hand_and_by_vbench_s_formula():
    assert temporal_flickering(tiny(0, 51)) == pytest.approx(0.8)
    assert temporal_flickering(still()) == 1.0
    clip = as_uint8(CLIP)
    changes = [np.abs(np.float32(b) - np.float32(a)).mean() for a, b in pairwise(clip)]
    assert temporal_flickering(clip) == pytest.approx((255 - np.mean(changes)) / 255, abs=1e-6)
