"""Single pairs in a report, of pictures and of videos."""

import pytest
from made_videos import make_videos
from moving_clips import noisy

from workbench.eval import compare, figures, summary
from workbench.eval.report_views import one_prompt, up_close


@pytest.fixture
def pictures(reference, make_set):
    floor = compare(reference, make_set(repeat=1))
    return [compare(reference, make_set("FP8", noise=0.01), floor=floor)], floor


@pytest.fixture
def videos(monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path))
    reference = make_videos()
    floor = compare(reference, make_videos(repeat=1))
    candidate = make_videos("FP8", lambda clip: noisy(clip, 35))
    return [compare(reference, candidate, floor=floor)], floor


def test_pictures_are_a_grid_of_all_seeds_and_two_to_flip(pictures):
    compared, floor = pictures
    shown = str(one_prompt(compared, floor=floor))
    assert "canvas" not in shown
    for said in ("BF16", "BF16 repeat", "FP8", "seed 0", "seed 7"):
        assert said in shown
    close = str(up_close(compared[0]))
    assert close.count("data-show aria-pressed") == 3
    assert "canvas" not in close


def test_videos_are_players_slices_and_a_frame_to_flip(videos):
    compared, floor = videos
    shown = str(one_prompt(compared, floor=floor))
    assert "a teapot on a wooden table · seed 0" in shown
    assert "the floor is bit-exact" in shown
    close = str(up_close(compared[0], 1))
    pair = compared[0].pairs[1][0]
    for said in ("data-clip", "where the reference changes most", "of 0 to 8", "data-show"):
        assert said in close
    assert f"seed {pair.seed}" in close


def test_latent_steps_of_a_video_say_which_frame_they_show(videos):
    one = videos[0][0]
    steps = one.pairs[0][0].frames[:5]
    assert "frame 0 of 0 to 8" in str(one.scrub(0, steps, steps))


def test_times_are_of_a_video_or_of_a_picture(videos, pictures):
    for (compared, floor), drawn in ((videos, "video"), (pictures, "picture")):
        table = summary(floor.reference, compared, floor=floor)
        assert figures.latency_bars(table).layout.title.text == f"Time a {drawn} by precision"
