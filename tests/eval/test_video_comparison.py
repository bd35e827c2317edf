import json

import numpy as np
import pandas as pd
import pytest
from made_videos import make_videos
from moving_clips import every_fourth_shifted, noisy

from workbench.errors import ComparisonRefused
from workbench.eval import compare, style, summary
from workbench.eval.candidates import metric_stats, pair_frames
from workbench.eval.floor import NoiseFloor
from workbench.eval.media import grid
from workbench.eval.metrics import DEFAULT, score
from workbench.eval.ordering import fidelity_order
from workbench.eval.run_card import run_card
from workbench.eval.scored_clips import FACTS
from workbench.eval.temporal_metrics import TEMPORAL

ONE = {"prompts": ("a ball",), "seeds": (0,)}


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """The reference, and four candidates of the same mean PSNR; the first is off in time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(tmp_path_factory.mktemp("runs")))
        reference = make_videos()
        fault = make_videos("FP8", lambda clip: noisy(every_fourth_shifted(clip), 45))
        level = compare(reference, fault).table()["psnr_db"].mean()
        pattern = noisy(np.zeros((1, 48, 64, 3)), level, seed=3)
        yield {
            "reference": reference,
            "repeat": make_videos(repeat=1),
            "fault": fault,
            "noise": make_videos("INT8", lambda clip: noisy(clip, level, seed=2)),
            "fixed noise": make_videos("W4A16", lambda clip: clip + pattern),
            "brightness": make_videos("FP8", lambda clip: clip + 10 ** (-level / 20), seeds=(7, 0)),
        }


@pytest.fixture(scope="module")
def compared(sets):
    floor = compare(sets["reference"], sets["repeat"])
    candidates = {name: one for name, one in sets.items() if name not in ("reference", "repeat")}
    return {name: compare(sets["reference"], one, floor=floor) for name, one in candidates.items()}


@pytest.fixture(scope="module")
def medians(compared):
    return pd.DataFrame({name: one.summary()["median"] for name, one in compared.items()}).T


def test_mean_psnr_hardly_sees_the_planted_fault(medians):
    """39.36 dB for the fault, and 39.16 to 39.22 for the others."""
    assert medians["psnr_db"].idxmax() == "fault"
    assert medians["psnr_db"].max() - medians["psnr_db"].min() < 0.25


@pytest.mark.parametrize(
    "metric", ["flicker_error", "warping_error", "motion_error", "shift_error", "jitter"]
)
def test_the_planted_fault_is_worst_over_time_in_the_tables_of_compare(medians, metric):
    ranked = medians[metric].sort_values(ascending=False)
    assert ranked.index[0] == "fault"
    assert ranked.iloc[0] > 2.5 * ranked.iloc[1]


def test_worst_frames_are_those_of_the_fault_in_every_pair(compared):
    fault = compared["fault"]
    found = fault.worst_frames("jitter", 16)  # the way to a shifted frame, and the way back
    assert list(found)[:4] == ["row", "prompt", "seed", "frame"]
    assert set(found["frame"]) == {3, 4, 7, 8}
    assert set(found["row"]) == {0, 1, 2, 3}
    assert set(fault.worst_frames("psnr_db", 8)["frame"]) == {3, 7}
    assert found["prompt"][0] == fault.pairs[found["row"][0]][0].prompt


def test_worst_clips_are_rows_of_the_table_by_any_metric(compared):
    found = compared["fault"].worst_clips("jitter", 2)
    table = compared["fault"].table()
    assert found["jitter"].tolist() == sorted(table["jitter"], reverse=True)[:2]
    assert table.loc[found.index, "jitter"].tolist() == found["jitter"].tolist()
    with pytest.raises(ComparisonRefused, match="no metric 'jiter' here; there are psnr_db, ssim"):
        compared["fault"].worst_clips("jiter")


def test_a_row_of_the_table_is_the_mean_of_its_frames(compared):
    one = compared["noise"]
    for index, row in one.table().iterrows():
        frames = one.frames(index)
        assert frames["frame"].tolist() == list(range(9))
        for name in DEFAULT:
            assert row[name] == pytest.approx(frames[name].mean(), rel=1e-12)
        for name in ("flicker_error", "jitter"):
            assert np.isnan(frames[name][0])
            assert row[name] == pytest.approx(frames[name].mean(), rel=1e-12)


def test_a_pair_gives_what_score_gives_of_its_frames(compared):
    one = compared["fault"]
    a, b = one.pairs[0]
    scored = score(a.frames, b.frames)
    row = one.table().loc[0]
    assert {name: row[name] for name in scored.values} == scored.values
    assert set(scored.values) == {*DEFAULT, *TEMPORAL, *FACTS}
    assert set(FACTS).isdisjoint(one.summary().index)  # no end of them is better


def test_identical_clips_are_exactly_zero(sets):
    floor = compare(sets["reference"], sets["repeat"])
    table = floor.table()
    assert table["identical"].all()
    assert (table[[*TEMPORAL, "flip", "mae"]] == 0).all(axis=None)
    assert (table["ssim"] == 1).all()
    assert np.isposinf(table["psnr_db"]).all()
    assert floor.frames(0)["identical"].all()
    assert (floor.frames(0)[list(TEMPORAL)][1:] == 0).all(axis=None)


def test_summary_floor_gate_and_effects_know_the_metrics_over_time(compared, sets):
    fault, noise = compared["fault"], compared["noise"]
    summary = fault.summary()
    assert set(TEMPORAL) < set(summary.index)
    assert (summary.loc[list(TEMPORAL), "floor"] == 0).all()
    assert summary.loc["jitter", "low"] <= summary.loc["jitter", "median"]
    assert not fault.gate(jitter=0.5)
    assert noise.gate(jitter=0.5, psnr_db=30)
    assert fault.gate(jitter=0.5).failing["value"].is_monotonic_decreasing
    effect = fault.against(noise, "jitter")
    assert (effect["larger"], effect["n"]) == (4, 4)
    stats = metric_stats([fault, noise], "jitter", floor=fault.floor)
    assert stats.attrs["floor"] == {"low": 0, "high": 0}
    assert run_card(sets["reference"], [fault], floor=fault.floor).exists()
    held = NoiseFloor(reference=sets["reference"], measured={"repeat": fault.floor})
    assert held.table()["identical"].tolist() == [4]


def test_the_summary_of_videos_shows_what_psnr_does_not_see(compared, sets):
    fault, noise = compared["fault"], compared["noise"]
    table = summary(sets["reference"], [fault, noise], floor=fault.floor)
    assert table["jitter"].tolist()[1:] == [
        0,
        *(one.summary()["median"]["jitter"] for one in (fault, noise)),
    ]
    assert list(table).index("flicker_error") == list(table).index("flip") + 1
    page = style(table).to_html()
    for said in ("flicker, of white ↓", "jitter, px a frame ↓", "is the mean over its frames"):
        assert said in page
    order = fidelity_order([noise, fault])
    assert order["psnr_db"].is_monotonic_decreasing
    assert "says nothing about time: read flicker and jitter" in order.attrs["time_note"]


def test_a_clip_that_stands_still_is_infinitely_far_in_motion(monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path))
    reference = make_videos(**ONE)
    frozen = make_videos("INT8", lambda clip: np.repeat(clip[:1], len(clip), axis=0), **ONE)
    floor = compare(reference, make_videos(repeat=1, **ONE))
    one = compare(reference, frozen, floor=floor)
    row = one.summary().loc["motion_error"]
    assert (row["finite"], row["infinite"], row["median"]) == (0, 1, np.inf)
    assert not one.gate(motion_error=5)
    card = json.loads(run_card(reference, [one], floor=floor).read_text())
    of_motion = next(m for m in card["metrics"]["INT8"] if m["metric"] == "motion_error")
    assert (of_motion["infinite"], of_motion["median"]) == (1, None)


def test_every_frame_of_every_candidate_in_one_table(compared):
    table = pair_frames(compared.values())
    assert list(table)[:4] == ["precision", "prompt", "seed", "frame"]
    assert len(table) == 4 * 4 * 9


def test_a_given_first_frame_does_not_make_the_mean_infinite(sets, monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path))
    shown = compare(
        make_videos(**ONE),
        make_videos("INT8", lambda c: np.concatenate([c[:1], noisy(c[1:], 30)]), **ONE),
    )
    frames = shown.frames(0)
    assert frames["identical"].tolist() == [True] + [False] * 8
    assert np.isposinf(frames["psnr_db"][0])
    assert shown.table()["psnr_db"][0] == pytest.approx(frames["psnr_db"][1:].mean())
    assert not shown.table()["identical"][0]
    page = grid({"BF16": shown.reference, "INT8": shown.candidate})
    assert "frame 0: identical" in str(page)
    assert "frames" not in vars(shown.candidate[0])  # read, and not kept


def test_a_picture_of_a_video_is_its_worst_frame_or_the_one_asked_for(compared):
    fault = compared["fault"]
    worst = int(fault.frames(0)["psnr_db"].idxmin())
    assert worst in (3, 7)
    for shown in (fault.flip(0), fault.slider(0), fault.error_map(0), fault.worst(1)):
        assert "0 to 8" in str(shown)
    assert f"frame {worst} of 0 to 8" in str(fault.flip(0))
    assert "frame 5 of 0 to 8" in str(fault.flip(0, frame=5))
    with pytest.raises(IndexError):
        fault.flip(0, frame=9)


def test_the_spectrum_is_of_every_frame(compared):
    table = compared["noise"].spectrum(1)
    assert sorted(set(table["frame"])) == list(range(9))


def test_a_comparison_without_psnr_still_has_its_summary(sets):
    only = {"metrics": ["jitter"]}
    floor = compare(sets["reference"], sets["repeat"], **only)
    off = make_videos("BF16", lambda clip: noisy(clip, 50), repeat=2)
    apart = compare(sets["reference"], off, **only)
    fault = compare(sets["reference"], sets["fault"], floor=floor, **only)
    table = summary(sets["reference"], [fault], floor=floor)
    assert table["psnr_db"].isna().tolist() == [True, False, True]  # the repeat is identical
    assert table["n"].tolist()[1:] == [4, 4]
    assert "–" in style(table).to_html()
    held = NoiseFloor(reference=sets["reference"], measured={"repeat": apart})
    assert "dB" not in held.table()["says"][0]
    assert fault.flip(0, frame=3)
    assert int(fault.worst_frames("jitter", 1)["frame"][0]) in (3, 4, 7, 8)
