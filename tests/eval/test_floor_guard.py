"""A floor is the reference against itself, and of nothing else."""

import pytest
from made_videos import make_videos
from moving_clips import noisy

from workbench.errors import ComparisonRefused
from workbench.eval import compare, summary
from workbench.eval.candidates import metric_stats
from workbench.eval.clip_figures import clip_players
from workbench.eval.floor import NoiseFloor
from workbench.eval.report_views import one_prompt
from workbench.recipes import QuantRecipe
from workbench.specs import ModelRef, Sampling

PROMPTS = ("a ball", "a box")
FRAMES = ("0123" * 16, "4567" * 16)
W4A16 = {"method": "auto-round", "scheme": "W4A16"}


def int8_of(drawn):
    return make_videos("INT8", lambda clip: noisy(clip, 30), **drawn)


@pytest.fixture(params=["text", "other frames"])
def foreign(request, runs):
    """Of clips from other first frames, or from none."""
    images = {"text": None, "other frames": FRAMES[::-1]}[request.param]
    drawn = {"prompts": PROMPTS, "seeds": (0,), "images": images}
    return compare(make_videos(**drawn), make_videos(repeat=1, **drawn))


def test_a_floor_of_other_first_frames_is_refused(foreign):
    drawn = {"prompts": PROMPTS, "seeds": (0,), "images": FRAMES}
    reference, int8 = make_videos(**drawn), int8_of(drawn)
    refused = pytest.raises(ComparisonRefused, match="has another first frame than the reference")
    with refused:
        compare(reference, int8, floor=foreign)
    with refused:
        compare(reference, int8, floor=NoiseFloor(reference=reference, measured={"it": foreign}))
    own = compare(reference, make_videos(repeat=1, **drawn))
    one = compare(reference, int8, floor=own)
    for shown in (
        lambda: summary(reference, [one], floor=foreign),
        lambda: metric_stats([one], "psnr_db", floor=foreign),
        lambda: clip_players([one], floor=foreign),
        lambda: one_prompt([one], floor=foreign),
    ):
        with refused:
            shown()


def test_a_floor_from_text_is_refused_for_images_even_of_other_prompts(runs):
    of_text = {"prompts": ("a cone",), "seeds": (3,)}
    floor = compare(make_videos(**of_text), make_videos(repeat=1, **of_text))
    drawn = {"prompts": PROMPTS, "seeds": (0,), "images": FRAMES}
    with pytest.raises(ComparisonRefused, match="another first frame"):
        compare(make_videos(**drawn), int8_of(drawn), floor=floor)


@pytest.mark.parametrize(
    "asked",
    [
        {"prompts": ("a cone",), "images": FRAMES[:1]},
        {"prompts": PROMPTS[1:], "images": FRAMES[1:]},
        {"prompts": PROMPTS, "images": FRAMES, "seeds": (5,)},
    ],
    ids=["other prompts", "fewer", "other seeds"],
)
def test_a_floor_over_other_pairs_belongs(asked, runs):
    floor = {"seeds": (0,), **asked}
    measured = compare(make_videos(**floor), make_videos(repeat=1, **floor))
    drawn = {"prompts": PROMPTS, "seeds": (0,), "images": FRAMES}
    found = compare(make_videos(**drawn), int8_of(drawn), floor=measured)
    assert found.against_floor == "above"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"launch": {"model": ModelRef("embedded:other")}}, "model"),
        ({"launch": {"recipe": QuantRecipe(**W4A16, group_size=32)}}, "precision"),
        ({"sampling": Sampling(num_inference_steps=4, height=64)}, "sampling"),
        ({"launch": {"max_num_seqs": 2}}, "max_num_seqs"),
    ],
)
def test_whatever_else_makes_a_floor_foreign_is_named(changes, named, make_set):
    reference = make_set("W4A16")
    launch = {"recipe": QuantRecipe(**W4A16)} | changes.get("launch", {})
    other = {**changes, "launch": launch}
    floor = compare(make_set(**other), make_set(repeat=1, **other))
    with pytest.raises(ComparisonRefused, match=f"has another {named} than the reference"):
        compare(reference, make_set("W4A16", repeat=3), floor=floor)


def test_a_set_against_itself_is_no_floor(reference, make_set):
    with pytest.warns(UserWarning, match="compared with itself"):
        itself = compare(reference, reference)
    with pytest.raises(ComparisonRefused, match="with itself, which is zero whatever"):
        compare(reference, make_set("FP8", noise=0.02), floor=itself)
