from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import torch
from moving_clips import as_uint8, ball_clip, noisy
from PIL import Image

from workbench.errors import ComparisonRefused
from workbench.eval import metrics
from workbench.eval.clip_scores import temporal_table
from workbench.eval.clip_shift import jitter
from workbench.eval.clips import is_clip
from workbench.eval.gate import gate
from workbench.eval.metrics import score, score_pairs
from workbench.eval.scored_clips import FACTS
from workbench.eval.temporal import flicker_error, temporal_flickering
from workbench.eval.temporal_metrics import TEMPORAL
from workbench.eval.transitions import GROUPS

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
    assert list(found.values) == ["jitter", "shift_found"]  # of how many frames it speaks
    assert found.frames["identical"].tolist() == [False] * 4


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.metrics[0])
def test_only_the_group_that_is_asked_for_is_computed(group):
    whole = temporal_table(CLIP, OTHER)
    for asked in group.metrics:
        found = score(CLIP, OTHER, metrics=[asked])
        assert set(TEMPORAL) & set(found.frames) == set(group.metrics)
        assert set(found.values) == {asked, *(fact for fact, of in FACTS.items() if asked in of)}
        assert found.values[asked] == pytest.approx(TEMPORAL[asked].function(CLIP, OTHER))
        over_time = [name for name in whole if name in found.frames and name != "frame"]
        pd.testing.assert_frame_equal(
            found.frames.loc[1:, over_time].reset_index(drop=True), whole[over_time]
        )


def test_vbench_s_own_number_stands_beside_flicker():
    found = score(CLIP, OTHER, metrics=["flicker_error"]).values
    assert found["temporal_flickering"] == temporal_flickering(OTHER)
    assert found["temporal_flickering_reference"] == temporal_flickering(CLIP)


def test_noise_after_a_given_first_frame_has_no_shift_to_pass_a_gate_with():
    noise = np.random.default_rng(1).integers(0, 256, (3, *CLIP.shape[1:]), np.uint8)
    found = score(CLIP, np.concatenate([CLIP[:1], noise]))
    assert np.isnan([found.values[name] for name in ("shift_error", "jitter")]).all()
    assert found.values["shift_found"] == 0
    assert 0 < found.values["matched_share"] <= 1
    table = pd.DataFrame([{"prompt": "a", "seed": 0, **found.values}])
    assert not gate(table, {"shift_error": 0.1}, 0.0, {})


def test_frame_0_has_the_shift_that_the_clip_counts():
    found = score(CLIP, np.roll(CLIP, 2, axis=2))
    columns = ["shift_error", "shift_x_px", "shift_y_px"]
    assert found.frames.loc[0, columns].tolist() == pytest.approx([2, 2, 0], abs=1e-3)
    assert found.frames["shift_error"].mean() == pytest.approx(found.values["shift_error"])
    assert np.isnan(found.frames.loc[0, "jitter"])


def test_unequal_sizes_are_fitted_as_pictures_are():
    found = score(CLIP, OTHER[:, 1:], fit="crop", metrics=["mae"])
    assert any("cropped to the middle 47 x 64" in note for note in found.notes)
    with pytest.raises(ComparisonRefused, match=r"frame 0: .*fit='crop'"):
        score(CLIP, OTHER[:, 1:])


def test_floats_of_another_range_are_scored_when_told():
    values = CLIP / 127.5 - 1
    found = score(values, values, value_range=(-1, 1), metrics=["mae", "flicker_error"])
    assert {name: found.values[name] for name in ("mae", "flicker_error")} == {
        "mae": 0,
        "flicker_error": 0,
    }


def test_pairs_may_be_clips_and_pictures():
    clip, picture = score_pairs([(CLIP, OTHER), (CLIP[0], OTHER[0])], ["psnr_db"])
    assert clip.values["psnr_db"] != picture.values["psnr_db"]
    assert picture.frames is None


def test_small_clips_say_what_is_missing_unless_it_was_asked_for():
    found = score(CLIP[:, :12, :12], OTHER[:, :12, :12])
    assert "16 x 16" in found.missing["jitter"]
    assert "jitter" not in found.values
    assert found.values["psnr_db"] > 20
    assert found.values["flicker_error"] == flicker_error(CLIP[:, :12, :12], OTHER[:, :12, :12])
    asked = score(CLIP[:, :12, :12], OTHER[:, :12, :12], metrics=["flicker_error"])  # no flow
    assert asked.values["flicker_error"] == found.values["flicker_error"]
    with pytest.raises(ComparisonRefused, match="16 x 16"):
        score(CLIP[:, :12, :12], OTHER[:, :12, :12], metrics=["jitter"])


def test_a_metric_that_some_frames_lack_is_noted_and_not_missing():
    reference = CLIP.copy()
    reference[1] = 128  # no fine detail, and the candidate has
    found = score(reference, OTHER)
    assert found.values["high_frequency_error"] > 0
    assert "high_frequency_error" not in found.missing
    assert any(note.startswith("high_frequency_error: 1 of 4 frames left") for note in found.notes)


def test_transitions_that_a_drift_cannot_be_told_of_are_counted():
    stopped = np.concatenate([CLIP, np.repeat(CLIP[-1:], 2, axis=0)])  # nothing moves at the end
    lost = int(temporal_table(stopped, stopped)["subject_drift"].isna().sum())
    assert 0 < lost < len(stopped) - 1
    notes = score(stopped, stopped).notes
    said = f"subject_drift: {lost} of {len(stopped) - 1} transitions left out: too little of the"
    assert [note.startswith(said) for note in notes] == [True]
    assert score(CLIP, OTHER).notes == ()


def test_frames_of_clips_are_scored_in_the_pool_of_the_clips(monkeypatch):
    pools, taken, most = [], 0, 0

    class Counted(ThreadPoolExecutor):
        def __init__(self, *args, **options):
            pools.append(args)
            super().__init__(*args, **options)

    def pairs():
        nonlocal taken
        for _ in range(6):
            taken += 1
            yield CLIP, OTHER

    monkeypatch.setattr(metrics, "ThreadPoolExecutor", Counted)
    monkeypatch.setattr(metrics.os, "cpu_count", lambda: 2)
    for done, found in enumerate(score_pairs(pairs(), ["psnr_db"])):
        most = max(most, taken - done)
        assert len(found.frames) == 4
    assert (pools, most, done) == ([(2,)], 2, 5)
    score(CLIP, OTHER, metrics=["psnr_db"])  # a clip by itself has the cores for its frames
    assert len(pools) == 2


def test_one_frame_has_no_metrics_over_time():
    found = score([CLIP[0]], [OTHER[0]])
    assert found.missing["jitter"] == "metrics over time need at least 2 frames, got 1"
    with pytest.raises(ComparisonRefused, match="at least 2 frames"):
        score([CLIP[0]], [OTHER[0]], metrics=["jitter"])
    with pytest.raises(ComparisonRefused, match="the reference has 1 frame and the candidate 4"):
        score([CLIP[0]], OTHER)


def test_a_picture_against_a_clip_is_refused():
    with pytest.raises(ComparisonRefused, match="no clip"):
        score(CLIP, OTHER[0])


def test_align_is_for_clips():
    with pytest.raises(ComparisonRefused, match="align='shorter' is for clips"):
        score(CLIP[0], OTHER[0], align="shorter")


def test_metrics_over_time_of_pictures_are_refused():
    with pytest.raises(ComparisonRefused, match="jitter need at least 2 frames, and this is one"):
        score(CLIP[0], OTHER[0], metrics=["psnr_db", "jitter"])
