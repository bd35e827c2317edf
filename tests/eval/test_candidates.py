import pytest

from workbench.eval import compare
from workbench.eval.candidates import metric_stats, pair_effects, pair_table, told_apart


@pytest.fixture
def comparisons(reference, make_set):
    return [
        compare(reference, make_set(name, noise=of))
        for name, of in (("FP8", 0.02), ("INT8", 0.005))
    ]


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


@pytest.mark.parametrize("metric", ["psnr_db", "ssim", "flip", "relative_l2"])
def test_the_closer_one_is_named_whichever_end_of_the_metric_is_better(comparisons, metric):
    assert told_apart(comparisons, metric) == ["INT8 is closer than FP8"]
    assert told_apart(comparisons[::-1], metric) == ["INT8 is closer than FP8"]
    twice = [comparisons[0], comparisons[0]]
    (said,) = told_apart(twice, metric)
    assert said.endswith("are not told apart")


def test_pairs_of_all_candidates_in_one_table(comparisons):
    found = pair_table(comparisons)
    assert list(found)[:3] == ["precision", "prompt", "seed"]
    assert found["precision"].value_counts().to_dict() == {"FP8": 4, "INT8": 4}
