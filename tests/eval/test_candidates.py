import pytest

from workbench.eval import compare
from workbench.eval.candidates import fidelity_order, metric_stats, pair_effects, pair_table


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


def test_one_metric_over_all_candidates_with_the_floors_range(comparisons, reference, repeat):
    floor = compare(reference, repeat)
    found = metric_stats(comparisons, "psnr_db", floor=floor)
    assert found["precision"].tolist() == ["FP8", "INT8"]
    wanted = comparisons[0].summary().loc["psnr_db", "median"]
    assert found["median"].tolist()[0] == wanted
    values = floor.table()["psnr_db"]
    assert found.attrs["floor"] == {"low": values.min(), "high": values.max()}
    assert metric_stats(comparisons, "psnr_db").attrs["floor"] is None


def test_each_two_candidates_are_compared_once(comparisons):
    found = pair_effects(comparisons, "psnr_db")
    assert found[["first", "second"]].values.tolist() == [["FP8", "INT8"]]
    assert found["high"].item() < 0


def test_pairs_of_all_candidates_in_one_table(comparisons):
    found = pair_table(comparisons)
    assert list(found)[:3] == ["precision", "prompt", "seed"]
    assert found["precision"].value_counts().to_dict() == {"FP8": 4, "INT8": 4}
