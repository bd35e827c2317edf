"""Recommendations in words."""

from dataclasses import replace

import pytest
from made_benchmarks import SIZED, curve, made

from workbench.eval.advice import advice
from workbench.recipes import Calibration, QuantRecipe
from workbench.specs import Parallelism


def line(text, start):
    (found,) = [one for one in text.splitlines() if one.startswith(start)]
    return found


BF16 = curve("BF16", {1: 1.0, 8: 1.0}, spread=0.01, peak_mib=1000)
FP8 = curve("FP8", {1: 0.8, 8: 1.25}, spread=0.01, peak_mib=700)


def test_each_regime_has_its_own_answer():
    said = advice([*BF16, *FP8])
    alone = line(said, "Single stream")
    assert "BF16 on one device draws a picture in 1 s, 1.25 times as fast as FP8 (1.23 to" in alone
    assert "95 % interval; " in alone
    assert "n = 8 and 8 requests" in alone
    batch = line(said, "Batch, 8 requests in flight")
    assert "FP8 on one device draws 1.25 pictures a second, 1.25 times as fast as BF16" in batch
    assert "n = 64 and 64 requests" in batch
    memory = line(said, "Memory-bound, 1 in flight")
    assert "FP8 on one device has the smallest reserved peak, 700 MiB, 0.70 of BF16's" in memory
    assert "its latency: 0.80 times as fast as BF16" in memory
    assert "decide" not in said


def test_it_says_what_it_rests_on():
    said = line(advice([*BF16, *FP8]), "Rests on")
    for fact in ("big", "1024 x 1024", "20 steps", "NVIDIA H200", "one device", "TORCH_SDPA"):
        assert fact in said
    assert "eager" in said
    assert "1, 8 in flight" in said
    split = Parallelism(tensor_parallel_size=2)
    runs = [made(name, parallelism=split, enforce_eager=False) for name in ("BF16", "FP8")]
    said = advice(runs)
    assert "2 x NVIDIA H200 (TP=2)" in said
    assert "compiled" in said
    assert "with TP=2 draws" in said


def test_where_intervals_overlap_the_data_do_not_decide():
    noisy = curve("FP8", {1: 1.02}, spread=0.2, peak_mib=995)
    said = advice([*curve("BF16", {1: 1.0}, spread=0.2), *noisy])
    assert "do not decide between FP8 and BF16. As measured, FP8" in line(said, "Single stream")
    assert "do not decide between FP8 and BF16" in line(said, "Memory-bound")


def test_one_round_of_requests_decides_nothing():
    said = advice([made("BF16", [2.0]), made("FP8", [1.0])])
    assert "the data do not decide" in line(said, "Single stream")
    assert "no range from one round; n = 1 and 1 requests" in said


def test_few_rounds_are_a_range_and_decide_nothing():
    """The smallest and largest of 3 enclose a median in 75 % of samples."""
    said = advice([made("BF16", [2.0, 2.1, 2.2]), made("FP8", [1.0, 1.1, 1.2], peak_mib=500)])
    alone = line(said, "Single stream")
    assert alone.startswith("Single stream: too few rounds for certainty. As measured, FP8")
    assert "1.91 times as fast as BF16 (1.67 to 2.20, range of 3 rounds; n = 3" in alone
    assert alone.endswith("it is ahead of BF16 in every round.")
    assert "range of 3 rounds" in line(said, "Memory-bound")
    assert "Fewer than 6 rounds of requests have a range and no 95 % interval" in said
    assert "Fewer than 6" not in advice([*BF16, *FP8])


def test_batches_that_differ_are_said():
    full = curve("FP8", {1: 0.8, 8: 1.25}, spread=0.01)
    said = advice([BF16[0], replace(BF16[1], batches={8: 1, 4: 1}), *full])
    assert line(said, "The batches that ran differ") == (
        "The batches that ran differ, in pictures a pass: at 8 in flight 6 (BF16) and 8 (FP8)."
    )


def test_runs_that_may_not_be_compared_are_apart():
    few_steps = curve("FP8", {1: 5.0}, sampling=SIZED.but(num_inference_steps=4))
    said = advice([*BF16, *few_steps])
    assert len(said.split("\n\n")) == 2
    assert "Only BF16 was measured so" in said
    assert "Only FP8 was measured so" in said
    assert "times as fast" not in said


def test_a_checkpoint_that_was_quantized_elsewhere_is_compared():
    said = advice([made("BF16"), made("NVFP4", model="other", stored="NVFP4", peak_mib=500)])
    assert "NVFP4 on one device has the smallest" in said


def test_random_weights_are_said_and_fidelity_is_not_judged():
    said = advice([made(name, random_weights=True) for name in ("BF16", "FP8")])
    assert "The weights are random: speed and memory only, fidelity is not judged." in said
    assert "random" not in advice([*BF16, *FP8])


def test_a_cpu_and_the_toy_model_say_nothing_of_a_gpu():
    toy = [made(name, platform="cpu", model="embedded:qwen-image") for name in ("BF16", "INT8")]
    said = advice(toy)
    assert "says nothing about a GPU" in said
    assert "a toy" in said
    assert "Some CPU" in said
    assert "toy" not in advice([*BF16, *FP8])


def test_reference_kernels_are_left_out_of_the_speeds():
    fast = made("FP8", [0.1] * 4, reference_kernels=True, peak_mib=500)
    said = advice([made("BF16"), made("INT8", [1.5, 1.6, 1.5, 1.6]), fast])
    assert "BF16 on one device draws" in line(said, "Single stream")
    assert "FP8 on one device has the smallest" in line(said, "Memory-bound")
    assert "was not measured: reference kernels ran" in said
    assert "FP8 ran on reference kernels" in said


def test_failed_requests_are_counted():
    assert "Requests that failed and are in no number: 1." in advice(
        [made("BF16", failed=1), made("FP8")]
    )


def test_two_runs_of_one_precision_are_told_apart_by_their_keys():
    tuned = QuantRecipe(
        method="auto-round", scheme="W4A16", iters=50, calibration=Calibration(prompts=("a mug",))
    )
    twins = made("W4A16", [1.0] * 4), made("W4A16", [2.0] * 4, recipe=tuned)
    said = line(advice([made("BF16", [3.0] * 4), *twins]), "Single stream")
    assert f"W4A16 (#{twins[0].key[:4]}) on one device draws" in said


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([], "No benchmarks: no advice."),
        ([made()], "Only BF16 was measured so: there is nothing to compare it with."),
        ([made(), *curve("FP8", {8: 1.0})], "No two of these runs had equally many requests"),
    ],
)
def test_nothing_to_compare_is_said(runs, said):
    assert said in advice(runs)
