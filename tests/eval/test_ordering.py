import numpy as np
import pytest

from workbench.errors import ComparisonRefused
from workbench.eval import compare
from workbench.eval.candidates import pair_effects
from workbench.eval.ordering import farthest, fidelity_order, fidelity_orders, ordering_metrics


@pytest.fixture
def comparisons(reference, make_set):
    return [
        compare(reference, make_set(name, noise=of))
        for name, of in (("FP8", 0.02), ("INT8", 0.005))
    ]


def test_fidelity_order_ranks_by_median_and_counts_pairs_won(comparisons):
    found = fidelity_order(comparisons)
    assert found["precision"].tolist() == ["INT8", "FP8"]
    assert found["closer_than_next"].tolist() == ["4 of 4 pairs", "–"]


def test_pictures_are_ordered_by_psnr_alone_unless_another_metric_is_named(comparisons):
    assert ordering_metrics(comparisons) == ["psnr_db"]
    found = fidelity_orders(comparisons)
    assert found["metric"].tolist() == ["psnr_db", "psnr_db"]
    assert found["median"].tolist() == fidelity_order(comparisons)["psnr_db"].tolist()
    assert found.attrs["time_note"] == ""
    assert fidelity_order(comparisons, "flip")["precision"].tolist() == ["INT8", "FP8"]
    assert farthest(comparisons) is comparisons[0]
    with pytest.raises(ComparisonRefused, match="FP8 has no metric 'jitter'; order by one of psnr"):
        fidelity_order(comparisons, "jitter")


def test_without_any_of_them_the_latents_order(reference, make_set):
    one = compare(reference, make_set("FP8", noise=0.02), metrics=["ssim"])
    assert ordering_metrics([one]) == ["relative_l2"]
    assert fidelity_orders([one])["metric"].tolist() == ["relative_l2"]


def test_identical_pairs_speak_for_a_candidate(comparisons):
    """FP8 is identical in three pairs and far in the fourth; INT8 is near in all."""
    fp8 = comparisons[0]
    fp8._table.loc[fp8._table.index[1:], "psnr_db"] = np.inf
    found = fidelity_order(comparisons)
    assert found["precision"].tolist() == ["FP8", "INT8"]
    assert found["psnr_db"][0] == np.inf
    assert found["closer_than_next"][0] == "3 of 4 pairs"
    assert pair_effects(comparisons, "psnr_db")["infinite"].item() == 3


def test_of_two_that_are_mostly_identical_the_worse_pairs_decide(comparisons):
    worse, better = comparisons
    worse._table["psnr_db"] = [20.0, np.inf, np.inf, np.inf]
    better._table["psnr_db"] = [np.inf] * 4
    found = fidelity_order(comparisons)
    assert found["precision"].tolist() == ["INT8", "FP8"]
    assert found["closer_than_next"][0] == "1 of 4 pairs, 3 equal"


def test_equal_pairs_and_pairs_without_a_value_are_said(comparisons):
    a, b = comparisons
    b._table["psnr_db"] = a._table["psnr_db"].to_numpy()
    b._table[["prompt", "seed"]] = a._table[["prompt", "seed"]].to_numpy()
    b._table.loc[0, "psnr_db"] = np.nan
    found = fidelity_order(comparisons)
    assert found["closer_than_next"][0] == "0 of 4 pairs, 3 equal, 1 not comparable"
    assert sorted(found["left_out"]) == [0, 1]
    b._table["psnr_db"] = np.nan
    assert fidelity_order([b, a])["precision"].tolist() == ["FP8", "INT8"]  # no value comes last
