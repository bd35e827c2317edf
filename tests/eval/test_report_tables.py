"""Tables over all candidates, of pictures and of videos."""

import numpy as np
import pytest
from made_videos import make_videos
from moving_clips import every_fourth_shifted, noisy

from workbench.eval import compare
from workbench.eval.ordering import fidelity_orders
from workbench.eval.report_tables import every_pair, order_table, what_ran


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """FP8 is off in time and near in PSNR, INT8 the other way round; W4A16 is noise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(tmp_path_factory.mktemp("runs")))
        reference = make_videos()
        noise = np.random.default_rng(1)
        faults = {
            "FP8": lambda clip: noisy(every_fourth_shifted(clip), 45),
            "INT8": lambda clip: noisy(clip, 39, seed=2),
            "W4A16": lambda clip: noise.random(clip.shape),
        }
        yield [compare(reference, make_videos(name, fault)) for name, fault in faults.items()]


def test_the_order_over_time_stands_beside_that_by_psnr(videos):
    found = fidelity_orders(videos)
    order = {name: of["precision"].tolist() for name, of in found.groupby("metric", sort=False)}
    assert order == {
        "psnr_db": ["FP8", "INT8", "W4A16"],
        "flicker_error": ["INT8", "FP8", "W4A16"],
        "jitter": ["INT8", "FP8", "W4A16"],
    }
    wins = found.set_index(["metric", "precision"])["closer_than_next"]
    assert wins["flicker_error", "INT8"] == "4 of 4 pairs"
    assert wins["jitter", "FP8"] == "0 of 4 pairs, 4 not comparable"
    page = order_table(videos).to_html()
    for said in (
        "PSNR, dB; higher is closer",
        "flicker error, of white; lower is closer",
        "0 of 4<",
        "says nothing about time: read flicker and jitter",
        "Jitter of the frame of W4A16 could not be told in 4 of 4 pairs.",
    ):
        assert said in page


def test_every_pair_of_videos_has_all_metrics_over_time_worst_first(videos):
    frames, over_time = str(every_pair(videos)).split("</table>")[:2]
    assert "psnr_<wbr>db" in frames
    assert "warping_<wbr>error" not in frames
    for name in ("flicker_<wbr>error", "warping_<wbr>error", "jitter", "subject_<wbr>drift"):
        assert name in over_time
    rows = over_time.split("<tr>")[2:]
    assert len(rows) == 12
    assert [name for row in rows for name in ("FP8", "INT8", "W4A16") if f">{name}<" in row] == [
        *["W4A16"] * 4,
        *["FP8"] * 4,
        *["INT8"] * 4,
    ]
    assert "–" in rows[0]  # noise has no shift
    assert "<b>car" not in frames


def test_identical_frames_are_told_where_candidates_differ_in_them(monkeypatch, tmp_path):
    def from_frame_3(clip):
        return np.concatenate([clip[:3], noisy(clip, 30)[3:]])

    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path))
    reference = make_videos(prompts=("a ball",), seeds=(0,))
    own = {"prompts": ("a ball",), "seeds": (0,)}
    partly = compare(reference, make_videos("FP8", from_frame_3, **own))
    wholly = compare(reference, make_videos("INT8", lambda clip: noisy(clip, 31), **own))
    page = str(every_pair([partly, wholly]))
    assert ">3 of 9 frames<" in page
    assert ">no<" in page
    said = "Identical frames, which are in no mean of PSNR: FP8 3 of 9, INT8 0 of 9."
    assert said in order_table([partly, wholly]).to_html()
    assert "Identical frames" not in order_table([partly]).to_html()
    whole = compare(reference, make_videos(repeat=1, **own))
    assert "Identical frames" not in order_table([wholly, whole]).to_html()


def test_pictures_have_one_table_and_no_word_about_time(reference, make_set):
    pictures = [compare(reference, make_set(name, noise=0.01)) for name in ("FP8", "INT8")]
    page = str(every_pair(pictures)) + order_table(pictures).to_html()
    assert page.count("<table") == 2
    assert "time" not in page
    assert "flicker" not in page


def test_what_is_infinite_or_missing_has_a_sign(reference, make_set):
    one = compare(reference, make_set("FP8", noise=0.01))
    one._table.loc[0, "psnr_db"] = np.inf
    one._table.loc[1, "psnr_db"] = np.nan
    page = str(every_pair([one]))
    assert ">∞<" in page
    assert page.index(">–<") < page.index(">∞<")  # without a value comes first


def test_what_ran_has_a_row_for_each_kind_of_layer_escaped(make_set):
    page = what_ran([make_set(), make_set("FP8")]).to_html()
    assert page.count("<tr>") == 1 + 4 - 1  # BF16's two kinds of layers are alike
    told = ("weight_<wbr>dtype", "SomeKernel", "the preset keeps it", "<summary>all</summary>")
    for said in told:
        assert said in page
