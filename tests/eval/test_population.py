import numpy as np
import pandas as pd
import pytest
from scipy.stats import bootstrap

from workbench.errors import ComparisonRefused
from workbench.eval.population import interval, paired_effect, spread, summarised, typical, worst


def test_the_spread_of_a_hand_case():
    assert spread(pd.Series([30.0, np.inf, 40.0, 50.0, 20.0, np.nan])) == {
        "finite": 4,
        "infinite": 1,
        "left_out": 1,
        "mean": 35.0,  # of the finite ones
        "min": 20.0,
        "q1": 30.0,
        "median": 40.0,
        "q3": 50.0,
        "max": np.inf,
    }


def test_identical_pairs_alone_have_an_infinite_median_and_no_mean():
    found = spread(pd.Series([np.inf, np.inf]))
    assert (found["finite"], found["infinite"], found["median"]) == (0, 2, np.inf)
    assert np.isnan(found["mean"])
    nothing = spread(pd.Series([np.nan, np.nan]))
    assert (nothing["left_out"], nothing["finite"], nothing["infinite"]) == (2, 0, 0)
    assert np.isnan([nothing[name] for name in ("mean", "min", "median", "max")]).all()


def test_identical_pairs_never_lower_a_median():
    """Ten pairs, of which more and more become identical; none may speak against the candidate."""
    values = np.arange(20.0, 30.0)
    better = [np.where(np.arange(10) < count, np.inf, values) for count in range(11)]
    medians = pd.Series([spread(pd.Series(of))["median"] for of in better])
    assert medians.iloc[0] == 24.5
    assert medians.is_monotonic_increasing
    assert medians.iloc[-1] == np.inf


def test_an_infinite_error_counts():
    values = pd.Series([1.0, np.inf, 2.0, np.inf, np.nan, 3.0])
    found = spread(values, identical=0.0)
    assert (found["finite"], found["infinite"]) == (3, 2)
    assert [found[name] for name in ("min", "q1", "median", "q3", "max")] == [
        1,
        2,
        3,
        *[np.inf] * 2,
    ]
    assert found["mean"] == np.inf
    low, high = interval(values, "abcdef")
    assert 1 <= low <= 3
    assert high == np.inf
    table = pairs([1.0, np.inf, np.inf]).rename(columns={"psnr_db": "motion_error"})
    row = summarised(table.assign(identical=False), None).loc["motion_error"]
    assert (row["infinite"], row["median"]) == (2, np.inf)


def test_one_pair_a_prompt_is_the_ordinary_bootstrap():
    values = pd.Series(np.random.default_rng(1).normal(30, 3, size=200))
    low, high = interval(values, range(200))
    wanted = bootstrap(
        (values.to_numpy(),), np.median, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    assert (low, high) == pytest.approx(wanted, abs=0.15)


def test_pairs_of_one_prompt_count_less_than_pairs_of_many():
    prompts = np.repeat(np.arange(8), 8)
    shifts = np.random.default_rng(3).normal(0, 5, size=8)[prompts]
    values = pd.Series(shifts + np.random.default_rng(4).normal(0, 0.1, size=64))
    by_prompt, by_pair = interval(values, prompts), interval(values, range(64))
    assert by_prompt[1] - by_prompt[0] > 1.5 * (by_pair[1] - by_pair[0])


def test_prompts_may_have_different_numbers_of_seeds():
    values = pd.Series([1.0, 2.0, 3.0, 10.0])
    low, high = interval(values, ["a", "a", "a", "b"])
    assert 1 <= low < high <= 10
    assert interval(values[:3], ["a"] * 3) == (1, 3)


def test_an_interval_is_the_same_every_time_and_needs_two():
    values = pd.Series([1.0, 2.0, 4.0, 8.0])
    assert interval(values, "abcd") == interval(values, "abcd")
    assert np.isnan(interval(pd.Series([1.0, np.nan]), "ab")).all()


def pairs(values, seeds=(0, 1, 2)):
    return pd.DataFrame({"prompt": "p", "seed": seeds, "psnr_db": values})


def test_a_paired_effect_of_a_hand_case():
    found = paired_effect(pairs([30.0, 20.0, 10.0]), pairs([29.0, 18.0, 10.0]), "psnr_db")
    assert found["median"] == 1.0
    assert (found["n"], found["finite"], found["larger"], found["equal"]) == (3, 3, 2, 1)
    assert 0 <= found["low"] <= 1 <= found["high"] <= 2


def test_a_pair_that_both_have_identical_is_a_tie():
    found = paired_effect(pairs([np.inf, 20.0, 10.0]), pairs([np.inf, 18.0, 10.0]), "psnr_db")
    assert (found["finite"], found["infinite"], found["equal"]) == (3, 0, 2)
    assert (found["median"], found["larger"], found["closer"]) == (0.0, 1, 1)  # of 0, 2, 0


def test_a_pair_that_only_one_has_identical_is_the_largest_difference():
    """By hand: infinite, -1, -2, infinite, 3: the median is 3, and not the -1 of the finite."""
    a = pairs([np.inf, 29.0, 28.0, np.inf, 33.0], range(5))
    b = pairs([25.0, 30.0, 30.0, 26.0, 30.0], range(5))
    found, turned = paired_effect(a, b, "psnr_db"), paired_effect(b, a, "psnr_db")
    assert (found["n"], found["finite"], found["infinite"], found["left_out"]) == (5, 3, 2, 0)
    assert (found["median"], found["larger"], found["closer"]) == (3.0, 3, 3)
    assert (found["low"], found["high"]) == (-2.0, np.inf)
    assert (turned["median"], turned["low"], turned["high"]) == (-3.0, -np.inf, 2.0)
    assert (turned["larger"], turned["closer"]) == (2, 2)


def test_one_identical_pair_on_each_side_is_no_difference():
    a, b = pairs([np.inf, 20.0], (0, 1)), pairs([20.0, np.inf], (0, 1))
    found = paired_effect(a, b, "psnr_db")
    assert (found["median"], found["infinite"], found["closer"]) == (0.0, 2, 1)
    assert (found["low"], found["high"]) == (-np.inf, np.inf)


def test_a_pair_without_a_value_is_left_out_and_counted():
    found = paired_effect(pairs([np.nan, 20.0, 10.0]), pairs([25.0, 18.0, 9.0]), "psnr_db")
    assert (found["n"], found["finite"], found["left_out"], found["median"]) == (3, 2, 1, 1.5)


def test_the_closer_one_is_told_by_the_metric():
    def table(metric, values):
        return pairs(values).rename(columns={"psnr_db": metric})

    lower = paired_effect(table("jitter", [1, 2, 3.0]), table("jitter", [2, 3, 3.0]), "jitter")
    assert (lower["median"], lower["larger"], lower["closer"], lower["equal"]) == (-1.0, 0, 2, 1)
    sides = [table("warping_error", values) for values in ([-0.1, 0.02, 0.0], [0.05, -0.03, 0.01])]
    signed = paired_effect(*sides, "warping_error")  # distances 0.1, 0.02, 0 and 0.05, 0.03, 0.01
    assert signed["median"] == pytest.approx(-0.01)
    assert (signed["larger"], signed["closer"]) == (1, 2)


MANY = 1e6  # what stands for infinity in the oracle: far beyond every decibel


def decibels(random, n):
    """PSNR of pairs, a third of them identical."""
    return np.where(random.random(n) < 1 / 3, np.inf, random.normal(30, 4, n).round(1))


def by_hand(first, second):
    """Differences pair by pair, infinity being MANY; nothing of the code under test."""
    said = [[MANY if value == np.inf else value for value in of] for of in (first, second)]
    return np.array([0.0 if a == b else a - b for a, b in zip(*said, strict=True)])


def as_infinite(value):
    return float(np.sign(value) * np.inf) if abs(value) > MANY / 10 else value


@pytest.mark.parametrize("seed", range(40))
def test_paired_effects_with_infinite_values_are_those_of_a_very_large_number(seed):
    random = np.random.default_rng(seed)
    n = 3 + seed
    first, second = decibels(random, n), decibels(random, n)
    found = paired_effect(pairs(first, range(n)), pairs(second, range(n)), "psnr_db")
    apart = by_hand(first, second)
    wanted = as_infinite(np.median(apart))
    assert found["median"] == pytest.approx(wanted, abs=1e-6)
    assert found["infinite"] == sum(abs(apart) > MANY / 10)
    positive, negative = (apart > 0).sum(), (apart < 0).sum()
    assert (found["closer"], found["equal"]) == (positive, n - positive - negative)
    assert found["low"] <= found["median"] <= found["high"]


def test_the_interval_of_differences_with_infinite_ones_is_scipys_of_a_very_large_number():
    random = np.random.default_rng(5)
    first = np.where(random.random(150) < 0.3, np.inf, random.normal(31, 3, 150))
    second = np.where(random.random(150) < 0.2, np.inf, random.normal(30, 3, 150))
    tables = [pairs(of, range(150)).assign(prompt=range(150)) for of in (first, second)]
    found = paired_effect(*tables, "psnr_db")
    wanted = bootstrap(
        (by_hand(first, second),), np.median, method="percentile", rng=np.random.default_rng(6)
    ).confidence_interval
    assert (found["low"], found["high"]) == pytest.approx(wanted, abs=0.25)
    assert found["infinite"] > 40


def test_the_typical_value_of_a_metric_with_two_sides_is_a_distance():
    assert typical(pd.Series([-0.1, 0.1, 0.3]), "warping_error") == pytest.approx(0.1)
    assert typical(pd.Series([-0.1, 0.1]), "warping_error") == pytest.approx(0.1)  # and not 0
    assert typical(pd.Series([30.0, np.inf, np.inf]), "psnr_db") == np.inf
    assert typical(pd.Series([1.0, np.nan, 3.0]), "jitter") == 2
    assert np.isnan(typical(pd.Series([np.nan]), "jitter"))


def test_foreign_tables_are_refused():
    with pytest.raises(ComparisonRefused, match="share no prompt and seed"):
        paired_effect(pairs([1.0] * 3), pairs([1.0] * 3, seeds=(5, 6, 7)), "psnr_db")
    with pytest.raises(ComparisonRefused, match="no metric 'ssim' here; there are psnr_db"):
        paired_effect(pairs([1.0] * 3), pairs([1.0] * 3), "ssim")


def test_the_worst_is_the_farthest_from_identical():
    assert worst(pd.Series([30.0, np.inf]), "psnr_db") == 30
    assert worst(pd.Series([0.1, 0.3, np.nan]), "relative_l2") == 0.3
    assert worst(pd.Series([0.01, -0.1, 0.05]), "warping_error") == -0.1
    assert worst(pd.Series([np.inf, np.nan]), "psnr_db") == np.inf
    assert np.isnan(worst(pd.Series([np.nan]), "jitter"))


def test_summarised_counts_identical_pairs():
    table = pairs([30.0, np.inf, 40.0]).assign(identical=[False, True, False])
    row = summarised(table, None).loc["psnr_db"]
    assert (row["n"], row["identical"], row["finite"], row["infinite"]) == (3, 1, 2, 1)
    assert (row["mean"], row["median"], row["left_out"]) == (35, 40, 0)
