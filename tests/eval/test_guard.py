"""What may be compared, and whether the next step of each refusal works."""

import ast

import pytest
from conftest import PROMPTS, STEPS
from made_videos import make_videos

from workbench.errors import ComparisonRefused
from workbench.eval import compare
from workbench.eval.guard import MAY_DIFFER
from workbench.records import Trajectory
from workbench.specs import ModelRef, Parallelism, Sampling

ONE = {"prompts": ("a ball",), "seeds": (0,)}
LAUNCH = {
    "model": ModelRef("embedded:other"),
    "runtime": "vllm-omni-server",
    "parallelism": Parallelism(tensor_parallel_size=2),
    "dtype": "float16",
    "step_execution": True,
    "max_num_seqs": 2,
    "enforce_eager": False,
}
AUDIT = {"attention_backend": "FLASH_ATTN", "platform": "cuda"}
SAMPLING = {
    "num_inference_steps": 5,
    "height": 64,
    "width": 64,
    "true_cfg_scale": 2.0,
    "guidance_scale": 3.0,
    "guidance_scale_2": 2.0,
    "negative_prompt": "blurred",
    "num_frames": 5,
}


def refusal(reference, candidate, **options):
    with pytest.raises(ComparisonRefused) as refused:
        compare(reference, candidate, **options)
    return str(refused.value)


def test_every_field_has_its_case_below():
    assert {*LAUNCH, *AUDIT} == set(MAY_DIFFER)
    assert {*SAMPLING, "fps"} == set(Sampling.model_fields)


@pytest.mark.parametrize("field", MAY_DIFFER)
def test_a_condition_may_differ_by_the_words_of_its_refusal(field, reference, make_set):
    at = {"launch": {field: LAUNCH[field]}} if field in LAUNCH else {"audit": {field: AUDIT[field]}}
    candidate = make_set("FP8", noise=0.02, **at)
    said = refusal(reference, candidate)
    assert f"again with the other's {field}, or let that differ: across=" in said
    across = ast.literal_eval(said.rpartition("across=")[2])
    assert len(compare(reference, candidate, across=across).pairs) == 4
    assert len(compare(make_set(**at), candidate).pairs) == 4


def test_what_may_differ_already_stays_in_the_advice(reference, make_set):
    changes = {"launch": {"max_num_seqs": 2, "enforce_eager": False}}
    candidate = make_set("FP8", noise=0.02, **changes)
    said = refusal(reference, candidate, across=["max_num_seqs"])
    assert said.endswith("let that differ: across=('max_num_seqs', 'enforce_eager')")


@pytest.mark.parametrize("field", SAMPLING)
def test_another_sampling_is_to_be_drawn_again_and_nothing_else(field, reference, make_set):
    other = Sampling(**{"num_inference_steps": STEPS, field: SAMPLING[field]})
    said = refusal(reference, make_set("FP8", sampling=other))
    assert f"again with the other's {field}" in said
    assert "across=" not in said
    again = make_set("INT8", sampling=other, noise=0.02)
    assert len(compare(make_set(sampling=other), again).pairs) == 4
    assert f"{[field]} are no conditions" in refusal(reference, reference, across=[field])


@pytest.mark.parametrize("images", [None, ("4567" * 16,)], ids=["without", "others"])
def test_other_first_frames_are_to_be_drawn_again_and_nothing_else(images, runs):
    reference = make_videos(**ONE, images=("0123" * 16,))
    said = refusal(reference, make_videos("INT8", **ONE, images=images))
    assert said.endswith("again with the other's images")
    again = make_videos(repeat=1, **ONE, images=("0123" * 16,))
    assert len(compare(reference, again).pairs) == 1


def test_what_draws_other_noise_is_not_offered_to_differ(reference, make_set):
    def rounded(kept):
        return Trajectory(latents=kept.latents.astype("float16"), timesteps=kept.timesteps)

    candidate = make_set(launch={"dtype": "float16"}, trajectory=rounded)
    said = refusal(reference, candidate)
    assert said.endswith("again with the other's dtype")
    assert "again here at one dtype" in refusal(reference, candidate, across=["dtype"])


def test_clips_of_other_lengths_and_sizes_have_nothing_to_score_in_common(runs):
    said = refusal(make_videos(**ONE), make_videos("INT8", frames=5, height=64, **ONE))
    assert said.endswith("again with the other's height and num_frames")


def test_frames_a_second_may_differ_and_players_take_the_reference_s(runs):
    reference, candidate = make_videos(**ONE), make_videos("INT8", fps=24, **ONE)
    floor = compare(reference, make_videos(repeat=1, fps=16, **ONE))
    with pytest.warns(UserWarning, match="INT8 gave the very pixels"):
        found = compare(reference, candidate, floor=floor)
    assert found.table()["identical"].all()
    assert '"fps": 8' in str(found.players(0))


def test_one_pair_is_one_in_words(reference, make_set):
    with pytest.warns(UserWarning, match="only 1 pair is in both sets, of 4 in the reference and"):
        compare(reference, make_set("FP8", noise=0.02, prompts=PROMPTS[:1], seeds=(0,)))
