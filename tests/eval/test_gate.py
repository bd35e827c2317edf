import numpy as np
import pandas as pd
import pytest

from workbench.errors import ComparisonRefused
from workbench.eval.gate import gate

TABLE = pd.DataFrame(
    {
        "prompt": ["a"] * 5 + ["b"] * 5,
        "seed": list(range(5)) * 2,
        "psnr_db": [20.0, 25.0, 31.0, 32.0, 33.0, 34.0, 35.0, 36.0, np.inf, np.inf],
        "flip": [0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.0, 0.0],
    }
)


def judged(quantile=0.0, table=TABLE, **limits):
    return gate(table, limits, quantile, {"lpips": "weights not available: none here"})


def test_it_passes_and_fails_by_the_number_of_failing_pairs():
    assert judged(psnr_db=20)
    assert not judged(psnr_db=30)
    assert not judged(psnr_db=30, quantile=0.1)
    assert judged(psnr_db=30, quantile=0.2)
    assert judged(psnr_db=30, flip=0.2, quantile=0.2)
    assert not judged(flip=0.05, quantile=0.2)


def test_failing_pairs_are_listed_worst_first():
    found = judged(psnr_db=30, flip=0.2)
    assert found.failing["value"].tolist() == [20.0, 25.0, 0.3]
    assert found.failing["metric"].tolist() == ["psnr_db", "psnr_db", "flip"]
    assert str(found).startswith("fail: ")
    assert "below 30 in 2 of 10 pairs" in str(found)


def test_identical_pairs_pass_and_nan_fails():
    table = TABLE.assign(psnr_db=[np.nan] + [np.inf] * 9)
    assert judged(psnr_db=1000, table=table).failing["seed"].tolist() == [0]


def test_a_metric_with_a_sign_is_judged_by_its_distance():
    table = TABLE.iloc[:3].assign(warping_error=[0.01, -0.1, 0.04])
    found = judged(table=table, warping_error=0.02)
    assert found.failing["value"].tolist() == [-0.1, 0.04]
    assert "farther than 0.02 from 0 in 2 of 3 pairs" in str(found)
    with pytest.raises(ComparisonRefused, match=r"warping_error=-0\.1: .*distance from 0"):
        judged(table=table, warping_error=-0.1)


def test_a_tenth_of_thirty_is_three():
    table = pd.concat([TABLE] * 3)
    assert judged(quantile=0.1, psnr_db=21, table=table).allowed == 3
    assert judged(quantile=0.1, psnr_db=21, table=table)


def test_bad_questions_are_refused():
    with pytest.raises(ComparisonRefused, match=r"quantile=1\.5: give the share"):
        judged(quantile=1.5, psnr_db=30)
    with pytest.raises(ComparisonRefused, match="no limit"):
        judged()
    with pytest.raises(ComparisonRefused, match=r"no metric 'pnsr'.* it has psnr_db, flip"):
        judged(pnsr=30)
    with pytest.raises(ComparisonRefused, match="lpips was not computed: weights not available"):
        judged(lpips=0.1)
