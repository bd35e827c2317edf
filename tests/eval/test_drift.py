import numpy as np
import pytest
from moving_clips import HEIGHT, STEP, WIDTH, as_uint8, ball_clip, blurred, noisy, pan_clip

from workbench.errors import ComparisonRefused
from workbench.eval.clips import prepare_clips
from workbench.eval.drift import background_drift, drifts, looks, moving, subject_drift
from workbench.eval.optical_flow import motions

CLIP = ball_clip()
DRIFTS = [subject_drift, background_drift]


def lefts():
    return [(t, slice(6 + STEP * t, 22 + STEP * t)) for t in range(len(CLIP))]


def repainted(part):
    """The ball, or all but the ball, turns blue from frame to frame."""
    clip = CLIP.copy()
    for t, columns in lefts():
        inside = np.zeros((HEIGHT, WIDTH), bool)
        inside[16:32, columns] = True
        where = inside if part == "ball" else ~inside
        share = t / (len(CLIP) - 1)
        clip[t][where] = (1 - share) * clip[t][where] + share * np.array([0.1, 0.2, 0.9])
    return clip


@pytest.mark.parametrize("clip", [CLIP, as_uint8(CLIP), CLIP[..., :1]], ids=["float", "8", "gray"])
@pytest.mark.parametrize("drift", DRIFTS)
def test_identical_clips_drift_alike(drift, clip):
    assert drift(clip, clip.copy()) == 0.0


@pytest.mark.parametrize("drift", DRIFTS)
def test_one_frame_and_unequal_clips_are_refused(drift):
    with pytest.raises(ComparisonRefused, match="at least 2 frames, got 1"):
        drift(CLIP[:1], CLIP[:1])
    with pytest.raises(ComparisonRefused, match="9 frames and the candidate 4"):
        drift(CLIP, CLIP[:4])
    assert drift(CLIP, CLIP[:4], align="shorter") == 0.0


def test_the_moving_part_is_the_ball():
    masks = moving(motions(CLIP))
    assert len(masks) == len(CLIP)
    for t, columns in lefts():
        assert masks[t, 18:30, columns].mean() > 0.8
        assert masks[t, :8].sum() == masks[t, 44:].sum() == 0


def test_a_pan_moves_nothing():
    inside = moving(motions(pan_clip(3)))[:, 8:-8, 8:-8]
    assert inside.mean() < 0.05


def test_a_ball_that_changes_colour_is_a_drift_of_the_subject():
    candidate = repainted("ball")
    assert subject_drift(CLIP, candidate) > 0.1
    assert abs(background_drift(CLIP, candidate)) < 0.02


def test_ground_that_changes_colour_is_a_drift_of_the_background():
    candidate = repainted("ground")
    assert background_drift(CLIP, candidate) > 0.1
    assert subject_drift(CLIP, candidate) < 0.5 * background_drift(CLIP, candidate)


def test_drift_grows_along_the_clip():
    clips = prepare_clips(CLIP, repainted("ground"))
    _, background = drifts(clips, motions(clips.reference))
    assert len(background) == len(CLIP) - 1
    assert (np.diff(background) > 0).all()


@pytest.mark.parametrize("same", [blurred(CLIP, 0.8), CLIP + 0.05, noisy(CLIP, 40)])
@pytest.mark.parametrize("drift", DRIFTS)
def test_what_is_off_alike_in_every_frame_is_hardly_a_drift(drift, same):
    assert abs(drift(CLIP, same)) < 0.02


def test_a_clip_in_which_nothing_moves_has_no_subject():
    still = np.repeat(CLIP[:1], 3, axis=0)
    assert np.isnan(subject_drift(still, still))
    assert background_drift(still, still) == 0.0


def test_looks_of_one_colour_by_hand():
    """No edges; L*, a* and b* of white: 100, 0, 0, of bins from -128 to 128 the middle two."""
    white = np.full((4, 4, 3), 255, np.uint8)
    rest, nothing = looks(white, np.zeros((4, 4), bool))
    edges, lightness, *chroma = np.split(rest, [9, 25, 41])
    assert (edges == 0).all()
    assert lightness == pytest.approx(np.eye(16)[15], abs=1e-3)
    for values in chroma:
        expected = np.zeros(16)
        expected[7:9] = np.sqrt(0.5)
        assert values == pytest.approx(expected, abs=1e-2)
    assert (nothing == 0).all()


@pytest.mark.parametrize(("axis", "bin_number"), [(1, 0), (0, 4)])
def test_looks_know_the_direction_of_edges(axis, bin_number):
    """Upright edges have their slope along x, turn 0; level ones at half of a half turn, 4.5."""
    ramp = np.linspace(0, 1, 20)
    frame = np.broadcast_to(ramp if axis else ramp[:, None], (20, 20))[..., None]
    edges = looks(frame, np.zeros((20, 20), bool))[0, :9]
    assert edges[bin_number] == edges.max()
    assert np.count_nonzero(edges > 1e-3) == (1 if axis else 2)


def test_looks_do_not_depend_on_place():
    frame = np.zeros((30, 30, 3))
    frame[5:15, 5:15] = CLIP[0, 18:28, 8:18]
    moved = np.roll(frame, (7, 4), axis=(0, 1))
    parts = []
    for picture in (frame, moved):
        mask = picture.sum(2) > 0
        parts.append(looks(picture, mask))
    np.testing.assert_allclose(parts[0], parts[1], atol=1e-6)
