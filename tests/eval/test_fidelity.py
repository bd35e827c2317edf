import numpy as np
import pandas as pd
import pytest

from workbench.errors import ComparisonRefused
from workbench.eval.fidelity import WINDOW, psnr_db, spread, ssim


def noisy(seed=0, shape=(24, 31, 3)):
    source = np.random.default_rng(seed)
    picture = source.integers(0, 256, shape).astype(np.uint8)
    return picture, np.clip(picture + source.normal(0, 12, shape), 0, 255).astype(np.uint8)


def wang_2004(a, b):
    """SSIM by direct sums over every 11 x 11 window that lies inside, one channel after another."""
    at = np.arange(WINDOW) - WINDOW // 2
    window = np.exp(-(at**2) / (2 * 1.5**2))
    window = np.outer(window, window) / window.sum() ** 2
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    values = []
    for channel in range(3):
        x, y = (
            np.lib.stride_tricks.sliding_window_view(
                p[..., channel].astype(float), (WINDOW, WINDOW)
            )
            for p in (a, b)
        )
        mean_x, mean_y = (x * window).sum((2, 3)), (y * window).sum((2, 3))
        var_x = (x * x * window).sum((2, 3)) - mean_x**2
        var_y = (y * y * window).sum((2, 3)) - mean_y**2
        both = (x * y * window).sum((2, 3)) - mean_x * mean_y
        values.append(
            (
                (2 * mean_x * mean_y + c1)
                * (2 * both + c2)
                / ((mean_x**2 + mean_y**2 + c1) * (var_x + var_y + c2))
            ).mean()
        )
    return np.mean(values)


def constant(value, side=16):
    return np.full((side, side, 3), value, np.uint8)


@pytest.mark.parametrize("seed", range(3))
def test_psnr_matches_its_formula(seed):
    a, b = noisy(seed)
    mse = ((a.astype(float) - b.astype(float)) ** 2).mean()
    assert psnr_db(a, b) == pytest.approx(10 * np.log10(255**2 / mse), abs=1e-9)


@pytest.mark.parametrize(
    ("a", "b", "expected"), [(0, 255, 0.0), (100, 101, 48.1308036), (10, 20, 28.1308036)]
)
def test_psnr_of_constant_pictures_is_known_by_hand(a, b, expected):
    assert psnr_db(constant(a), constant(b)) == pytest.approx(expected, abs=1e-6)


def test_identical_pictures_have_infinite_psnr_and_ssim_one():
    a, _ = noisy()
    assert psnr_db(a, a.copy()) == float("inf")
    assert ssim(a, a.copy()) == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(3))
def test_ssim_matches_wang_2004(seed):
    a, b = noisy(seed)
    assert ssim(a, b) == pytest.approx(wang_2004(a, b), abs=1e-6)


def test_ssim_of_constant_pictures_is_the_luminance_term():
    c1 = (0.01 * 255) ** 2
    expected = (2 * 100 * 150 + c1) / (100**2 + 150**2 + c1)
    assert ssim(constant(100), constant(150)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("metric", [psnr_db, ssim])
@pytest.mark.parametrize(
    ("reference", "candidate", "named"),
    [
        (constant(1), constant(1, side=32), "(32, 32, 3)"),
        (constant(1).astype(np.float32), constant(1), "float32"),
        (constant(1), constant(1)[..., 0], "(16, 16)"),
        (np.zeros((16, 16, 4), np.uint8), np.zeros((16, 16, 4), np.uint8), "(16, 16, 4)"),
    ],
)
def test_unlike_pictures_are_refused_by_value(metric, reference, candidate, named):
    with pytest.raises(ComparisonRefused) as error:
        metric(reference, candidate)
    assert named in str(error.value)


def test_ssim_refuses_pictures_smaller_than_its_window():
    with pytest.raises(ComparisonRefused, match="at least 11 x 11 pixels, got 10 x 10"):
        ssim(constant(1, side=10), constant(1, side=10))


def test_spread_leaves_infinite_values_out():
    assert spread(pd.Series([30.0, np.inf, 40.0])) == {
        "finite": 2,
        "min": 30.0,
        "q1": 32.5,
        "median": 35.0,
        "q3": 37.5,
        "max": 40.0,
    }


def test_spread_of_nothing_finite_is_not_a_number():
    found = spread(pd.Series([np.inf, np.inf]))
    assert found["finite"] == 0
    assert np.isnan(found["median"])
