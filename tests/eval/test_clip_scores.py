import numpy as np
import pandas as pd
import pytest
from moving_clips import (
    as_uint8,
    ball_clip,
    blurred,
    every_fourth_shifted,
    noisy,
)
from PIL import Image

from workbench.errors import ComparisonRefused
from workbench.eval.clip_scores import frame_scores, temporal_scores, temporal_table, worst_frames
from workbench.eval.metrics import DEFAULT, score
from workbench.eval.temporal import motion_magnitude
from workbench.eval.temporal_metrics import TEMPORAL

CLIP = ball_clip()


def mean_psnr(candidate):
    return frame_scores(CLIP, candidate, metrics=["psnr_db"])["psnr_db"].mean()


def sigma_of(psnr_db):
    """The blur that has this mean PSNR, by halving."""
    low, high = 0.1, 2.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_psnr(blurred(CLIP, middle)) > psnr_db else (low, middle)
    return high


@pytest.fixture(scope="module")
def candidates():
    """Five ways to be 39.95 dB off on average; the first one is off in time."""
    faulty = noisy(every_fourth_shifted(CLIP), 45)
    level = mean_psnr(faulty)
    pattern = noisy(np.zeros((1, *CLIP.shape[1:])), level, seed=3)
    return {
        "fault": faulty,
        "noise": noisy(CLIP, level, seed=2),
        "fixed noise": CLIP + pattern,
        "blur": blurred(CLIP, sigma_of(level)),
        "brightness": CLIP + 10 ** (-level / 20),
    }


@pytest.fixture(scope="module")
def ranking(candidates):
    return pd.DataFrame({name: temporal_scores(CLIP, b) for name, b in candidates.items()}).T


def test_mean_psnr_hardly_tells_the_planted_fault_apart(candidates):
    """39.95 dB for the fault, and 39.88 to 39.95 for the others."""
    means = pd.Series({name: mean_psnr(clip) for name, clip in candidates.items()})
    assert means.max() - means.min() < 0.1
    assert means["fault"] == pytest.approx(39.95, abs=0.05)


@pytest.mark.parametrize(
    ("metric", "fault", "next_worst"),
    [
        ("flicker_error", 0.0319, 0.0116),  # noise that is new in each frame
        ("warping_error", 0.00261, 0.00018),  # the same
        ("motion_error", 1.66, 0.15),
        ("shift_error", 0.48, 0.072),  # noise that stays; 4 / 9 without any
        ("jitter", 1.02, 0.106),  # the same
    ],
)
def test_the_planted_fault_ranks_worst_over_time(ranking, metric, fault, next_worst):
    ranked = ranking[metric].sort_values(ascending=False)
    assert ranked.index[0] == "fault"
    assert ranked.iloc[0] == pytest.approx(fault, rel=0.1)
    assert ranked.iloc[1] == pytest.approx(next_worst, rel=0.2)
    assert ranked.iloc[0] > 2.5 * ranked.iloc[1]


@pytest.mark.parametrize("metric", ["flicker_error", "warping_error", "jitter", "psnr_db"])
def test_worst_frames_are_those_of_the_fault(candidates, metric):
    faulty = candidates["fault"]
    table = (frame_scores if metric == "psnr_db" else temporal_table)(CLIP, faulty)
    if metric == "psnr_db":
        assert set(worst_frames(table, metric, 2)["frame"]) == {3, 7}
    else:  # the way to a shifted frame, and the way back
        assert set(worst_frames(table, metric, 4)["frame"]) == {3, 4, 7, 8}


@pytest.mark.parametrize("clip", [CLIP, as_uint8(CLIP)], ids=["floats", "uint8"])
def test_identical_clips_score_exactly_zero_and_a_ratio_of_one(clip):
    found = temporal_scores(clip, clip.copy())
    assert {name: found[name] for name in TEMPORAL} == dict.fromkeys(TEMPORAL, 0.0)
    assert (found["motion_ratio"], found["shift_found"], found["frames"]) == (1.0, 1.0, 9)
    assert found["temporal_flickering"] == found["temporal_flickering_reference"]
    table = temporal_table(clip, clip.copy())
    assert (table[list(TEMPORAL)] == 0).all(axis=None)
    assert (table["motion_ratio"] == 1).all()


@pytest.mark.parametrize("name", TEMPORAL)
def test_scores_are_those_of_each_metric_s_own_function(candidates, ranking, name):
    own = TEMPORAL[name].function(CLIP, candidates["fault"])
    assert ranking.loc["fault", name] == pytest.approx(own, rel=1e-12)
    assert TEMPORAL[name].lower <= own <= TEMPORAL[name].upper


def test_facts_beside_the_metrics(candidates, ranking):
    fault, motion = ranking.loc["fault"], motion_magnitude(CLIP, candidates["fault"])
    assert fault["motion_reference_px"] == motion.reference
    assert fault["motion_candidate_px"] == motion.candidate
    assert fault["motion_ratio"] == motion.ratio
    assert 0.9 < fault["matched_share"] <= 1
    assert fault["temporal_flickering"] < fault["temporal_flickering_reference"]


def test_the_table_has_one_row_a_transition(candidates):
    table = temporal_table(CLIP, candidates["fault"])
    assert table["frame"].tolist() == list(range(1, 9))
    assert set(TEMPORAL) < set(table)
    assert table.loc[table["frame"] == 3, "shift_x_px"].item() == pytest.approx(2, abs=0.1)
    assert (
        table["motion_ratio"] == table["motion_candidate_px"] / table["motion_reference_px"]
    ).all()


def test_frames_are_scored_as_pictures_are():
    clip = as_uint8(CLIP)
    other = as_uint8(np.clip(noisy(CLIP, 30), 0, 1))
    table = frame_scores([Image.fromarray(f) for f in clip], [Image.fromarray(f) for f in other])
    assert list(table) == ["frame", *DEFAULT]
    for frame in (0, 8):
        expected = score(clip[frame], other[frame]).values
        assert table.loc[frame, list(DEFAULT)].to_dict() == expected


def test_one_frame_has_image_metrics_and_none_over_time():
    assert len(frame_scores(CLIP[:1], CLIP[:1], metrics="psnr_db")) == 1
    for refused in (temporal_table, temporal_scores):
        with pytest.raises(ComparisonRefused, match="at least 2 frames, got 1"):
            refused(CLIP[:1], CLIP[:1])


def test_a_metric_without_a_value_is_a_column_of_none_with_its_reason():
    small = CLIP[:2, :8, :8]
    table = frame_scores(small, small)
    assert table["ssim"].isna().all()
    assert (table["mae"] == 0).all()
    assert "11 x 11" in table.attrs["missing"]["ssim"]
    text = frame_scores(small, small, metrics=["clip_score"])
    assert "needs the prompt" in text.attrs["missing"]["clip_score"]


@pytest.mark.parametrize("function", [frame_scores, temporal_table, temporal_scores])
def test_49_frames_against_45_are_refused_unless_aligned(function):
    a = np.zeros((49, 16, 16, 3), np.uint8)
    b = a[:45]
    with pytest.raises(ComparisonRefused, match="reference has 49 frames and the candidate 45"):
        function(a, b)
    options = {"metrics": ["mae"]} if function is frame_scores else {}
    found = function(a, b, align="shorter", **options)
    if function is temporal_scores:
        assert found["frames"] == 45
    else:
        assert found["frame"].iloc[-1] == 44
        assert found.attrs["notes"] == ("reference cut from 49 to 45 frames",)


def test_worst_frames_leave_out_what_is_no_number_and_follow_the_better_end():
    table = pd.DataFrame({"frame": range(4), "ssim": [0.9, 0.2, np.nan, 0.5], "flip": [1, 3, 2, 0]})
    assert worst_frames(table, "ssim", 9)["frame"].tolist() == [1, 3, 0]
    assert worst_frames(table, "flip", 2)["frame"].tolist() == [1, 2]


def test_worst_frames_of_a_signed_metric_are_the_farthest_on_either_side():
    table = pd.DataFrame({"frame": range(3), "warping_error": [0.0, -0.1, 0.05]})
    assert worst_frames(table, "warping_error")["frame"].tolist() == [1, 2, 0]


@pytest.mark.parametrize("wrong", ["psnr_db", "frame", "flips"])
def test_a_metric_that_is_not_there_is_refused_with_those_that_are(wrong):
    with pytest.raises(ComparisonRefused, match=f"no metric '{wrong}' here; there are flip, ssim"):
        worst_frames(pd.DataFrame({"frame": [0], "flip": [0.0], "ssim": [1.0]}), wrong)


def test_no_frames_asked_for_is_refused():
    with pytest.raises(ComparisonRefused, match="n=0 asks for no frames"):
        worst_frames(pd.DataFrame({"flip": [0.0]}), "flip", 0)
