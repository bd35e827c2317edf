import numpy as np
import pytest
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from workbench.errors import ComparisonRefused
from workbench.eval.fidelity import WINDOW, mean_absolute_error, psnr_db, ssim


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


SIZES = [(11, 11), (12, 40), (64, 48), (75, 101)]
GRID = [
    (shape, dtype, channels)
    for shape in SIZES
    for dtype in (np.uint8, np.float32, np.float64)
    for channels in (1, 3)
]


def pair(shape, dtype, channels):
    a, b = noisy(shape=(*shape, channels))
    return (a, b) if dtype == np.uint8 else ((a / 255).astype(dtype), (b / 255).astype(dtype))


@pytest.mark.parametrize(("shape", "dtype", "channels"), GRID)
def test_psnr_and_ssim_match_scikit_image(shape, dtype, channels):
    a, b = pair(shape, dtype, channels)
    white = 255 if dtype == np.uint8 else 1.0
    exact = [p if dtype == np.uint8 else p.astype(np.float64) for p in (a, b)]
    expected = structural_similarity(
        *exact,
        channel_axis=2,
        data_range=white,
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
    )
    assert ssim(a, b) == pytest.approx(expected, abs=1e-9)
    assert psnr_db(a, b) == pytest.approx(
        peak_signal_noise_ratio(*exact, data_range=white), abs=1e-9
    )


@pytest.mark.parametrize("height", [41, 42, 43, 44, 74, 75, 106])
def test_ssim_does_not_depend_on_where_strips_end(height):
    a, b = noisy(shape=(height, 20, 3))
    assert ssim(a, b) == pytest.approx(wang_2004(a, b), abs=1e-9)


@pytest.mark.parametrize("level", [0, 128, 255])
def test_ssim_of_faint_noise_on_a_flat_picture_is_exact(level):
    a = constant(level, side=40)
    b = np.clip(a + np.random.default_rng(0).integers(-2, 3, a.shape), 0, 255).astype(np.uint8)
    assert ssim(a, b) == pytest.approx(wang_2004(a, b), abs=1e-9)


def test_identical_pictures_have_ssim_of_exactly_one():
    a, _ = noisy()
    assert ssim(a, a) == ssim(a / 255, a / 255) == 1.0


def test_psnr_and_mae_of_two_by_two_pixels_are_known_by_hand():
    a = np.array([[0, 255], [100, 100]], np.uint8)
    b = np.array([[0, 255], [151, 100]], np.uint8)
    assert psnr_db(a, b) == pytest.approx(10 * np.log10(4 * 25), abs=1e-12)  # 255 / 51 = 5
    assert mean_absolute_error(a, b) == pytest.approx(0.05, abs=1e-12)
    assert mean_absolute_error(a / 255, b / 255) == pytest.approx(0.05, abs=1e-12)


@pytest.mark.parametrize(("shape", "dtype", "channels"), GRID[:6])
def test_mae_matches_its_formula(shape, dtype, channels):
    a, b = pair(shape, dtype, channels)
    white = 255 if dtype == np.uint8 else 1.0
    expected = np.abs(a.astype(float) - b.astype(float)).mean() / white
    assert mean_absolute_error(a, b) == pytest.approx(expected, abs=1e-12)


def test_mae_of_identical_pictures_is_zero():
    assert mean_absolute_error(*(noisy()[0],) * 2) == 0.0


@pytest.mark.parametrize("metric", [psnr_db, ssim, mean_absolute_error])
@pytest.mark.parametrize(
    ("reference", "candidate", "named"),
    [
        (constant(1), constant(1, side=32), "32 x 32"),
        (constant(1).astype(np.float32) * 2, constant(1), "from 2 to 2"),
        (constant(1).astype(np.int16), constant(1), "int16"),
        (np.zeros((16, 16, 2), np.uint8), np.zeros((16, 16, 2), np.uint8), "(16, 16, 2)"),
    ],
)
def test_pictures_that_cannot_be_compared_are_refused_by_value(metric, reference, candidate, named):
    with pytest.raises(ComparisonRefused) as error:
        metric(reference, candidate)
    assert named in str(error.value)


@pytest.mark.parametrize("shape", [(5, 5), (6, 9), (10, 400)])
def test_tiny_pictures_have_psnr_and_mae_but_no_ssim(shape):
    a, b = noisy(shape=(*shape, 3))
    assert psnr_db(a, b) > 0
    assert mean_absolute_error(a, b) > 0
    with pytest.raises(ComparisonRefused, match=f"11 x 11 pixels, got {shape[0]} x {shape[1]}"):
        ssim(a, b)


def test_ssim_refuses_pictures_smaller_than_its_window():
    with pytest.raises(ComparisonRefused, match="at least 11 x 11 pixels, got 10 x 10"):
        ssim(constant(1, side=10), constant(1, side=10))
