import numpy as np
import pandas as pd
import pytest
from conftest import PROMPTS
from made_videos import make_videos
from moving_clips import every_fourth_shifted, noisy

from workbench.errors import ComparisonRefused
from workbench.eval import compare
from workbench.eval.candidates import pair_frames
from workbench.eval.clip_figures import clip_players, clip_slices, curves_by_frame
from workbench.eval.temporal_metrics import KNOWN


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(tmp_path_factory.mktemp("runs")))
        reference = make_videos()
        repeat = make_videos(repeat=1, fault=lambda clip: noisy(clip, 55))
        floor = compare(reference, repeat)
        exact = compare(reference, make_videos(repeat=2))
        fp8 = make_videos("FP8", lambda clip: noisy(every_fourth_shifted(clip), 45))
        int8 = make_videos("INT8", lambda clip: noisy(clip, 39), seeds=(0,))
        yield {
            "exact": exact,
            "floor": floor,
            "FP8": compare(reference, fp8, floor=floor),
            "INT8": compare(reference, int8, floor=exact),
        }


@pytest.fixture(scope="module")
def both(compared):
    return [compared["FP8"], compared["INT8"]]


def test_players_of_all_precisions_open_at_the_worst_frame(both, compared):
    page = str(clip_players(both, PROMPTS[1], 0, floor=compared["floor"]))
    assert "a red &lt;b&gt;car&lt;/b&gt; &amp; a tree · seed 0" in page
    row = [pair[0].prompt for pair in both[0].pairs].index(PROMPTS[1])
    worst = int(both[0].frames(row)["psnr_db"].idxmin())
    assert f'"start": {worst}' in page
    assert '"fps": 8' in page
    assert len(page) < 600_000


def test_the_curves_are_those_asked_for_in_their_order(both):
    page = str(clip_players(both, metrics=["jitter", "ssim"]))
    assert page.index('"title": "jitter of the frame"') < page.index('"title": "SSIM"')
    assert '"title": "PSNR"' not in page
    with pytest.raises(ComparisonRefused, match="the frames have no lpips; they have psnr_db"):
        clip_players(both, metrics=["lpips"])


@pytest.mark.parametrize("figure", [clip_players, clip_slices])
def test_a_pair_that_is_not_there_is_refused(both, figure):
    with pytest.raises(ComparisonRefused, match=r"INT8 has no pair of prompt .* at seed 7"):
        figure(both, 0, 7)
    with pytest.raises(ComparisonRefused, match="no pair of prompt 'a cat'"):
        figure(both, "a cat")
    with pytest.raises(ComparisonRefused, match="no comparison to show"):
        figure([])


def test_one_comparison_plays_and_slices_its_rows(both):
    prompt = both[0].pairs[1][0].prompt
    for shown in (both[0].players(1, metrics=["jitter"]), both[0].time_slices(1)):
        assert prompt.split(" <")[0] in str(shown)


def test_a_candidate_of_the_reference_s_precision_stands_beside_it(compared):
    reference = compared["FP8"].reference
    other = make_videos(
        fault=lambda clip: noisy(clip, 40), launch={"attention_backend": "FLASH_ATTN"}
    )
    apart = compare(reference, other, across=("attention_backend",))
    page = str(clip_players([apart, compared["FP8"], apart], metrics=["jitter"]))
    named = "BF16 (attention_backend=FLASH_ATTN)"
    for name in ("reference BF16", named, "FP8", f"{named} #2"):
        assert f"<figcaption>{name}</figcaption>" in page
    assert page.count("<canvas data-clip") == 4
    assert "BF16 (attention_backend=FLASH_ATTN)" in str(clip_slices([apart]))


@pytest.mark.parametrize("figure", [clip_players, clip_slices])
def test_comparisons_against_several_references_are_refused(compared, figure):
    other = compare(compared["FP8"].candidate, compared["INT8"].candidate)
    with pytest.raises(ComparisonRefused, match="against several references"):
        figure([compared["FP8"], other])


def test_a_floor_that_lacks_the_pair_is_said_and_not_drawn(compared):
    reference = compared["FP8"].reference
    short = compare(reference, make_videos(repeat=3, seeds=(0,)))
    row = [pair[0].seed for pair in compared["FP8"].pairs].index(7)
    one = compare(reference, compared["FP8"].candidate, floor=short, metrics=["psnr_db", "mae"])
    page = str(one.players(row))
    assert "no floor measured" in page
    assert '"floor": null' in page


def test_curves_by_frame_have_the_floor_where_there_is_one(both, compared):
    figure = curves_by_frame(
        pair_frames(both), KNOWN["jitter"], floor=pair_frames([compared["floor"]])
    )
    names = {trace.name: trace for trace in figure.data if trace.name}
    assert set(names) == {"FP8", "INT8", "noise floor"}
    assert int(np.nanargmax(names["FP8"].y)) in (3, 4, 7, 8)
    own = compared["floor"].floor or compared["floor"]
    largest = pair_frames([own]).groupby("frame")["jitter"].max()
    assert np.nanmax(names["noise floor"].y) == largest.max()


def test_an_exact_floor_is_said_and_not_drawn(both, compared):
    figure = curves_by_frame(
        pair_frames(both), KNOWN["psnr_db"], floor=pair_frames([compared["exact"]])
    )
    assert "noise floor" not in {trace.name for trace in figure.data}
    assert "the floor is bit-exact" in figure.layout.title.subtitle.text
    assert "no floor measured" in (
        curves_by_frame(pair_frames(both), KNOWN["ssim"]).layout.title.subtitle.text
    )


def test_infinite_errors_are_not_called_identical():
    frames = pd.DataFrame({"precision": "FP8", "prompt": "a", "seed": 0, "frame": range(3)})
    frames = frames.assign(motion_error=[np.nan, np.inf, 0.5], warping_error=[np.nan, -0.1, 0.01])
    said = curves_by_frame(frames, KNOWN["motion_error"]).layout.title.subtitle.text
    assert "lower is closer; 1 infinite values are gaps" in said
    floor = frames.assign(warping_error=[np.nan, -0.2, 0.0])
    figure = curves_by_frame(frames, KNOWN["warping_error"], floor=floor)
    assert "nearer to 0 is closer" in figure.layout.title.subtitle.text
    assert np.nanmin(figure.data[-1].y) == -0.2


def test_identical_frames_are_gaps_and_counted(compared):
    figure = curves_by_frame(pair_frames([compared["exact"]]), KNOWN["psnr_db"])
    assert "36 identical frames are gaps" in figure.layout.title.subtitle.text
