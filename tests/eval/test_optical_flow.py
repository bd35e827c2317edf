import cv2
import numpy as np
import pytest
from moving_clips import FRAMES, STEP, as_uint8, ball_clip, pan_clip, texture

from workbench.errors import ComparisonRefused
from workbench.eval.optical_flow import (
    flow_between,
    gray,
    lengths,
    mean_length,
    motions,
    pulled_back,
    unit,
)

INSIDE = (slice(12, -12), slice(12, -12))


@pytest.fixture
def threads():
    before = cv2.getNumThreads()
    yield cv2.setNumThreads
    cv2.setNumThreads(before)


@pytest.mark.parametrize("step", [1, 2, 4])
def test_a_pan_is_found_forwards_and_back(step):
    for motion in motions(pan_clip(step)):
        np.testing.assert_allclose(motion.flow[INSIDE].mean((0, 1)), (step, 0), atol=0.1)
        np.testing.assert_allclose(motion.back[INSIDE].mean((0, 1)), (-step, 0), atol=0.1)
        assert motion.matched[INSIDE].mean() > 0.98


def test_pixels_that_leave_the_frame_are_not_matched():
    matched = motions(pan_clip(4))[0].matched
    assert not matched[:, -3:].any()


def test_the_ball_moves_and_the_ground_does_not():
    for t, motion in enumerate(motions(ball_clip())):
        left = 6 + STEP * t
        ball = motion.flow[20:28, left + 4 : left + 12]
        np.testing.assert_allclose(np.median(ball, axis=(0, 1)), (STEP, 0), atol=0.75)
        assert mean_length(motion.flow[:4]) < 0.1


def test_there_is_one_motion_fewer_than_frames():
    assert len(motions(ball_clip())) == len(lengths(ball_clip())) == FRAMES - 1


def test_a_still_clip_does_not_move_at_all():
    still = np.repeat(ball_clip(1), 3, axis=0)
    assert (lengths(still) == 0).all()
    assert all(motion.matched.all() for motion in motions(still))


def test_uint8_and_floats_move_alike():
    clip = as_uint8(ball_clip(3))
    assert (lengths(clip) == lengths(clip / 255.0)).all()


def test_the_flow_does_not_depend_on_the_number_of_threads(threads):
    planes = [np.rint(gray(frame) * 255).astype(np.uint8) for frame in ball_clip(2)]
    found = []
    for number in (1, 2):
        threads(number)
        found.append(flow_between(*planes))
    assert (found[0] == found[1]).all()


def test_mean_length_by_hand():
    flow = np.zeros((2, 2, 2), np.float32)
    flow[0, 0] = (3, -4)
    assert mean_length(flow) == 1.25


def test_pulling_back_along_a_known_flow_is_a_roll():
    picture = unit(texture(np.random.default_rng(3), 20, 30))
    flow = np.full((20, 30, 2), (5, -2), np.float32)
    expected = np.roll(picture, (2, -5), axis=(0, 1))
    back = pulled_back(picture, flow)
    np.testing.assert_array_equal(back[2:, :-5], expected[2:, :-5])


def test_frames_too_small_for_flow_are_refused():
    with pytest.raises(ComparisonRefused, match=r"Optical flow needs at least 16 x 16 .* 15 x 20"):
        motions(np.zeros((2, 15, 20, 3), np.uint8))


@pytest.mark.parametrize("size", [(16, 16), (16, 200), (200, 17)])
def test_small_and_narrow_frames_have_flow(size):
    assert lengths(np.zeros((2, *size, 3), np.uint8)) == [0]
