import numpy as np
import pandas as pd
import pytest
from scipy.stats import bootstrap

from workbench.errors import ComparisonRefused
from workbench.eval.population import interval, paired_effect, spread, summarised, worst


def test_the_spread_of_a_hand_case():
    assert spread(pd.Series([30.0, np.inf, 40.0, 50.0, 20.0])) == {
        "finite": 4,
        "infinite": 0,
        "mean": 35.0,
        "min": 20.0,
        "q1": 27.5,
        "median": 35.0,
        "q3": 42.5,
        "max": 50.0,
    }


def test_nothing_finite_is_not_a_number():
    found = spread(pd.Series([np.inf, np.inf]))
    assert (found.pop("finite"), found.pop("infinite")) == (0, 0)
    assert np.isnan(list(found.values())).all()


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
    low, high = interval(values, "abcdef", 0.0)
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
    assert np.isnan(interval(pd.Series([1.0, np.inf]), "ab")).all()


def pairs(values, seeds=(0, 1, 2)):
    return pd.DataFrame({"prompt": "p", "seed": seeds, "psnr_db": values})


def test_a_paired_effect_of_a_hand_case():
    found = paired_effect(pairs([30.0, 20.0, 10.0]), pairs([29.0, 18.0, 10.0]), "psnr_db")
    assert found["median"] == 1.0
    assert (found["n"], found["finite"], found["larger"], found["equal"]) == (3, 3, 2, 1)
    assert 0 <= found["low"] <= 1 <= found["high"] <= 2


def test_two_identical_pictures_have_no_difference_to_speak_of():
    found = paired_effect(pairs([np.inf, 20.0, 10.0]), pairs([np.inf, 18.0, 10.0]), "psnr_db")
    assert (found["finite"], found["equal"], found["median"]) == (2, 2, 1.0)


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
    assert (row["n"], row["identical"], row["finite"], row["mean"]) == (3, 1, 2, 35)
