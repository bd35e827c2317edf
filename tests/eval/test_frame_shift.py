import numpy as np
import pytest
from moving_clips import ball_clip, blurred, noisy, texture

from workbench.errors import ComparisonRefused
from workbench.eval.frame_shift import shift_between


@pytest.mark.parametrize("move", [(0, 2), (3, 0), (-2, 5), (-4, -4)])
def test_a_shift_matches_a_roll_by_known_pixels(move):
    down, right = move
    frame = texture(np.random.default_rng(1), 64, 96)
    found = shift_between(frame, np.roll(frame, move, axis=(0, 1)))
    assert found == (right, down)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("size", [(48, 64), (44, 45), (75, 81)])
def test_a_shift_of_a_window_on_something_larger_is_found_through_noise(seed, size):
    source = np.random.default_rng(seed)
    down, right = source.integers(-6, 7, 2)
    height, width = size
    world = texture(source, height + 20, width + 20)
    frame = world[10 : 10 + height, 10 : 10 + width]
    moved = world[10 - down :, 10 - right :][:height, :width]
    assert shift_between(frame, moved) == pytest.approx((right, down), abs=1e-4)
    assert shift_between(frame, noisy(moved, 30, seed)) == pytest.approx((right, down), abs=0.25)


def test_a_shift_by_part_of_a_pixel_is_found():
    frame = texture(np.random.default_rng(1), 64, 96)
    half = (frame + np.roll(frame, 1, axis=1)) / 2
    assert shift_between(frame, half) == pytest.approx((0.5, 0), abs=0.15)


def test_identical_frames_have_no_shift_whatever_their_size_or_colour():
    for frame in (texture(np.random.default_rng(0), 20, 20), np.zeros((2, 2, 1))):
        assert shift_between(frame, frame.copy()) == (0.0, 0.0)


def test_a_blur_and_a_change_of_brightness_are_no_shift():
    frame = ball_clip(1)
    for changed in (blurred(frame, 1.0), frame * 0.8, frame + 0.1):
        assert shift_between(frame[0], changed[0]) == pytest.approx((0, 0), abs=0.1)


def scene(left, top, flat=0.1):
    """A textured ball of 24 pixels before a background that stands still, of little contrast."""
    source = np.random.default_rng(3)
    frame = 0.4 + flat * (texture(source, 64, 96) - 0.5)
    frame[top : top + 24, left : left + 24] = texture(source, 24, 24)
    return frame


@pytest.mark.parametrize("flat", [0.03, 0.1, 0.3])
@pytest.mark.parametrize("move", [(16, -16), (12, 0), (-10, 6)])
def test_a_subject_elsewhere_before_a_standing_background_is_no_shift_of_the_frame(move, flat):
    right, down = move
    found = shift_between(scene(36, 20, flat), scene(36 + right, 20 + down, flat))
    assert np.isnan(found).all() or found == pytest.approx((0, 0), abs=0.5)


def test_the_peak_of_a_subject_is_refused_by_what_undoing_it_does(monkeypatch):
    frames = scene(36, 20), scene(52, 4)
    assert np.isnan(shift_between(*frames)).all()
    monkeypatch.setattr("workbench.eval.frame_shift._helps", lambda *_: True)
    assert shift_between(*frames) == pytest.approx((16, -16), abs=0.5)


@pytest.mark.parametrize("seed", range(5))
def test_unrelated_frames_have_no_shift_that_can_be_told(seed):
    a, b = (texture(np.random.default_rng(s), 48, 64) for s in (seed, seed + 100))
    assert np.isnan(shift_between(a, b)).all()


def test_a_frame_of_one_colour_lies_nowhere():
    frame = texture(np.random.default_rng(0), 20, 20)
    assert np.isnan(shift_between(frame, np.full_like(frame, 0.5))).all()


def test_frames_too_small_for_a_shift_are_refused():
    with pytest.raises(ComparisonRefused, match="The shift needs at least 16 x 16 pixels, got 2 x"):
        shift_between(np.zeros((2, 2, 1)), np.ones((2, 2, 1)))
