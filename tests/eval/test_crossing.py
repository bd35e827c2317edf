"""Where one precision overtakes another as load grows."""

from dataclasses import replace

import numpy as np
import pytest
from made_benchmarks import SIZED, curve, made

from workbench.errors import ComparisonRefused
from workbench.eval.crossing import crossing
from workbench.specs import Parallelism

BF16 = {1: 1.0, 4: 1.0, 16: 1.0}


def test_the_crossing_is_linear_in_the_logarithm_of_the_concurrency():
    found = crossing(curve("BF16", BF16), curve("FP8", {1: 0.8, 4: 1.2, 16: 1.4}))
    # From 0.8 at 2^0 to 1.2 at 2^2: 1 lies half way, at 2^1.
    assert found.at == pytest.approx(2.0)
    assert (found.low, found.high) == pytest.approx((2.0, 2.0))
    np.testing.assert_allclose(found.table["ratio"], [0.8, 1.2, 1.4])
    assert found.shares["crosses"] == 1
    assert str(found) == (
        "FP8 overtakes BF16 at 2.0 requests in flight [95 % interval 2.0 to 2.0]; 100% of the "
        "resamples agree, of 8 rounds or more"
    )


def test_the_interval_covers_what_the_resamples_read():
    found = crossing(
        curve("BF16", BF16, spread=0.05), curve("FP8", {1: 0.8, 4: 1.2, 16: 1.4}, spread=0.05)
    )
    assert found.decided
    assert 1.5 < found.low < found.at < found.high < 2.6
    assert (found.table["low"] < found.table["ratio"]).all()
    assert (found.table["ratio"] < found.table["high"]).all()


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ({1: 1.1, 4: 1.2}, "FP8 is ahead of BF16 at every concurrency measured (1 to 4)"),
        ({1: 0.8, 4: 0.9}, "FP8 never overtakes BF16 at the concurrencies measured (1 to 4)"),
        ({1: 1.2, 4: 0.9}, "FP8 is ahead of BF16 at 1 in flight and behind above that"),
        ({4: 1.2}, "FP8 is ahead of BF16 at every concurrency measured (4)"),
    ],
)
def test_without_a_crossing_there_is_no_place_and_the_sentence_says_which_side(rates, said):
    found = crossing(curve("BF16", BF16), curve("FP8", rates))
    assert (found.at, found.low, found.high) == (None, None, None)
    assert str(found) == f"{said}; 100% of the resamples agree, of 8 rounds or more"


def test_noise_around_one_is_not_decided():
    found = crossing(
        curve("BF16", BF16, spread=0.1), curve("FP8", {1: 1.01, 4: 1.5, 16: 2.0}, spread=0.1)
    )
    assert not found.decided
    assert found.at is None
    assert found.low is not None  # of those resamples that do cross
    assert found.shares["crosses"] + found.shares["ahead"] == pytest.approx(1)
    words = str(found)
    assert words.startswith("not decided: as measured FP8 is ahead of BF16 at every concurrency")
    assert "are ahead throughout" in words
    assert "% cross" in words
    assert words.endswith("ahead for certain at 4 and 16")


def test_one_round_of_requests_gives_a_place_and_no_interval():
    bf16, fp8 = (
        [made(name, [n / rate] * n, concurrency=n) for n, rate in rates.items()]
        for name, rates in (("BF16", {1: 1.0, 4: 1.0}), ("FP8", {1: 0.8, 4: 1.2}))
    )
    found = crossing(bf16, fp8)
    assert found.at == pytest.approx(2.0)
    assert found.low is None
    assert not found.decided
    assert str(found) == (
        "not decided: as measured FP8 overtakes BF16 at 2.0 requests in flight, but a 95 % "
        "interval takes 6 rounds of requests, and there were 1 at 1 in flight and 1 at "
        "4 in flight; nowhere told apart"
    )


@pytest.mark.parametrize("rounds", [2, 5])
def test_few_rounds_are_never_certain(rounds):
    """16 requests at 8 in flight are two rounds."""
    bf16, fp8 = (
        [
            *curve(name, {1: rate}),
            made(name, [8 / more] * 8 * rounds, concurrency=8),
        ]
        for name, rate, more in (("BF16", 1.0, 1.0), ("FP8", 0.8, 1.2))
    )
    found = crossing(bf16, fp8)
    assert list(found.table["rounds"]) == [8, rounds]
    assert (found.low, found.high, found.shares, found.decided) == (None, None, {}, False)
    assert str(found) == (
        "not decided: as measured FP8 overtakes BF16 at 2.8 requests in flight, but a 95 % "
        f"interval takes 6 rounds of requests, and there were {rounds} at 8 in flight; behind for "
        "certain at 1; ahead in every round at 8"
    )


def test_batches_and_versions_that_differ_are_said():
    ours, theirs = (curve(name, {1: 1.0, 8: 1.0}) for name in ("BF16", "FP8"))
    ours[1] = replace(ours[1], batches={8: 1, 4: 1})
    theirs = [replace(one, provenance={"packages": {"torch": "2.12.0"}}) for one in theirs]
    said = crossing(ours, theirs, across=["platform"]).cautions
    assert "torch is absent (BF16) and 2.12.0 (FP8)" in said
    assert said[-1] == (
        "the batches that ran differ, in pictures a pass: at 8 in flight 6 (BF16) and 8 (FP8)"
    )


def test_only_shared_concurrencies_count():
    found = crossing(curve("BF16", {1: 1.0, 8: 1.0}), curve("FP8", {1: 1.2, 4: 1.0, 8: 1.1}))
    assert list(found.table["concurrency"]) == [1, 8]


def test_random_weights_are_said():
    runs = [curve(name, {1: 1.0, 2: 1.0}, random_weights=True) for name in ("BF16", "FP8")]
    assert str(crossing(*runs)).endswith("(random weights)")


def test_reference_kernels_are_said():
    slow = curve("FP8", {1: 0.1, 2: 0.1}, reference_kernels=True)
    found = str(crossing(curve("BF16", {1: 1.0, 2: 1.0}), slow))
    assert found.endswith("(reference kernels, whose times mean nothing)")


def test_layouts_are_named_where_they_may_differ():
    other = curve("FP8", {1: 1.2, 4: 1.3}, parallelism=Parallelism(cfg_parallel_size=2))
    with pytest.raises(ComparisonRefused, match="parallelism is 'one device' against 'CFG=2'"):
        crossing(curve("BF16", BF16), other)
    found = crossing(curve("BF16", BF16), other, across=["parallelism"])
    assert str(found).startswith("FP8 with CFG=2 is ahead of BF16 with one device")


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        (curve("FP8", {2: 1.0}), "no concurrency is on both sides: 1, 4 and 16 against 2"),
        ([*curve("FP8", {1: 1.0}), *curve("INT8", {4: 1.0})], "one side holds FP8 and INT8"),
        (curve("FP8", {1: 1.0}) * 2, "two runs of FP8 at concurrency 1"),
        (
            [
                *curve("FP8", {1: 1.0}),
                *curve("FP8", {4: 1.0}, sampling=SIZED.but(num_inference_steps=4)),
            ],
            "num_inference_steps is 20 against 4",
        ),
        (curve("FP8", BF16, enforce_eager=False), "compiled is False against True"),
        ([], "no concurrency is on both sides: 1, 4 and 16 against none"),
    ],
)
def test_what_may_not_be_compared_is_refused(runs, why):
    with pytest.raises(ComparisonRefused, match=why):
        crossing(curve("BF16", BF16), runs)
