"""Which sets may be compared, and what is warned of."""

import warnings

import pytest

from workbench.errors import ComparisonRefused
from workbench.eval import compare
from workbench.records import Trajectory
from workbench.specs import ModelRef, Parallelism, Sampling

STEPS = 4  # of every synthetic set


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (
            {"sampling": Sampling(num_inference_steps=STEPS, true_cfg_scale=2.0)},
            "true_cfg_scale is None against 2.0",
        ),
        (
            {"launch": {"parallelism": Parallelism(tensor_parallel_size=2)}},
            "parallelism is .*=1.* against .*=2",
        ),
        ({"launch": {"model": ModelRef("other")}}, "model is .*embedded:test.* against .*other"),
        ({"launch": {"dtype": "float16"}}, "dtype is 'bfloat16' against 'float16'"),
        ({"launch": {"step_execution": True}}, "step_execution is False against True"),
        ({"launch": {"max_num_seqs": 2}}, "max_num_seqs is 1 against 2"),
        ({"launch": {"enforce_eager": False}}, "enforce_eager is True against False"),
        (
            {"audit": {"attention_backend": "FLASH_ATTN"}},
            "attention_backend is 'TORCH_SDPA' against 'FLASH_ATTN'",
        ),
        ({"audit": {"platform": "cuda"}}, "platform is 'cpu' against 'cuda'"),
        (
            {"audit": {"verdict": "not applied"}},
            "candidate .* asked for FP8 and its audit says 'not applied'",
        ),
        ({"seeds": (99,)}, r"no \(prompt, seed\) is in both sets: .*\[0, 7\] against .*\[99\]"),
    ],
)
def test_sets_that_differ_in_more_than_precision_are_refused(reference, make_set, changes, named):
    with pytest.raises(ComparisonRefused, match=named):
        compare(reference, make_set("FP8", **changes))


def test_every_differing_field_is_named(reference, make_set):
    sampling = Sampling(num_inference_steps=STEPS, height=64)
    with pytest.raises(ComparisonRefused) as error:
        compare(reference, make_set("FP8", sampling=sampling, launch={"max_num_seqs": 2}))
    assert "height is None against 64" in str(error.value)
    assert "max_num_seqs is 1 against 2" in str(error.value)


def test_an_attention_backend_asked_for_by_name_equals_the_default_that_it_is(reference, make_set):
    named = make_set("FP8", noise=0.02, launch={"attention_backend": "TORCH_SDPA"})
    assert len(compare(reference, named).pairs) == len(reference)


def test_other_initial_noise_is_refused(reference, make_set):
    def shifted(kept):
        return Trajectory(latents=kept.latents + 1, timesteps=kept.timesteps)

    with pytest.raises(ComparisonRefused, match="initial latents differ"):
        compare(reference, make_set("FP8", trajectory=shifted))


def test_a_partial_overlap_warns(reference, make_set):
    with pytest.warns(
        UserWarning, match="only 2 pairs are in both sets, of 4 in the reference and 2"
    ):
        found = compare(reference, make_set("FP8", noise=0.02, seeds=(0,)))
    assert len(found.table()) == 2


def test_identical_pixels_at_another_precision_warn(reference, make_set):
    with pytest.warns(UserWarning, match="INT8 gave the very pixels of BF16 in 4 of 4 pairs"):
        found = compare(reference, make_set("INT8"))
    assert found.table()["identical"].all()
    assert found.flag.startswith("identical to the reference")


def test_a_quantized_folder_of_its_own_is_compared_with_a_warning(reference, make_set):
    stored = {"model": ModelRef("/somewhere/quantized"), "stored": "W4A16"}
    with pytest.warns(UserWarning, match="/somewhere/quantized is W4A16 as it lies"):
        found = compare(reference, make_set(launch=stored, noise=0.02))
    assert found.flag == ""


def test_a_set_against_itself_warns(reference):
    with pytest.warns(UserWarning, match="compared with itself"):
        compare(reference, reference)


def test_a_repeat_warns_of_nothing(reference, make_set):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(reference, make_set(repeat=1))


def test_a_floor_of_another_precision_is_refused(reference, make_set):
    candidate = make_set("FP8", noise=0.02)
    wrong = compare(reference, candidate)
    with pytest.raises(
        ComparisonRefused, match=r"\(FP8\) has another precision than the reference .* \(BF16\)"
    ):
        compare(reference, candidate, floor=wrong)
