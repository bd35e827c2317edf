import numpy as np
import pytest

from workbench.errors import ComparisonRefused
from workbench.eval.spectrum import error_spectrum, high_frequency_error


def wave(fx, fy=0.0, height=64, width=48, size=0.25):
    """Gray floats around 0.5; fx and fy in cycles a pixel."""
    y, x = np.mgrid[0:height, 0:width]
    return 0.5 + size * np.cos(2 * np.pi * (x * fx + y * fy))


def noisy(shape, seed=0):
    source = np.random.default_rng(seed)
    a = source.integers(0, 256, shape).astype(np.uint8)
    return a, np.clip(a + source.normal(0, 9, shape), 0, 255).astype(np.uint8)


def powers_by_sums(values):
    """Radius and power of every frequency, by the definition of the transform."""
    height, width = values.shape
    window = np.outer(*(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n) for n in (height, width)))
    windowed = (values - values.mean()) * window
    y, x = np.mgrid[0:height, 0:width]
    for v in range(height):
        for u in range(width):
            term = windowed * np.exp(-2j * np.pi * (u * x / width + v * y / height))
            nearest = [min(k, n - k) / n for k, n in ((u, width), (v, height))]
            yield np.hypot(*nearest), abs(term.sum()) ** 2 / (window**2).sum()


def luma(p):
    return (0.2126 * p[..., 0] + 0.7152 * p[..., 1] + 0.0722 * p[..., 2]) / 255


@pytest.mark.parametrize("shape", [(16, 16), (17, 16), (16, 21), (19, 17)])
def test_both_match_plain_sums(shape):
    a, b = noisy((*shape, 3))
    radius, power = np.array(list(powers_by_sums(luma(a)))).T
    _, error = np.array(list(powers_by_sums(luma(b) - luma(a)))).T
    fine = radius >= 0.25
    expected = np.sqrt(error[fine].sum() / power[fine].sum())
    assert high_frequency_error(a, b) == pytest.approx(expected, rel=1e-9)

    table = error_spectrum(a, b, bins=4)
    for ring, row in enumerate(table.itertuples()):
        inside = np.minimum((radius * 8).astype(int), 3) == ring
        assert row.radius == (ring + 0.5) / 8
        assert row.reference_power == pytest.approx(power[inside].mean(), rel=1e-9)
        assert row.error_power == pytest.approx(error[inside].mean(), rel=1e-9)
        assert row.relative_error == pytest.approx(
            np.sqrt(error[inside].mean() / power[inside].mean()), rel=1e-9
        )


@pytest.mark.parametrize(("fx", "fy"), [(0.375, 0), (0, 0.375), (0.5, 0.5), (0.25, 0.25)])
def test_a_fine_wave_that_is_fainter_by_a_fifth_is_off_by_a_fifth(fx, fy):
    a, b = wave(fx, fy), wave(fx, fy, size=0.2)
    assert high_frequency_error(a, b) == pytest.approx(0.2, rel=1e-9)


def test_a_checkerboard_that_is_lost_is_off_by_all_of_itself():
    board = (np.indices((32, 32)).sum(axis=0) % 2 * 255).astype(np.uint8)
    lost = np.full_like(board, 128)
    assert high_frequency_error(board, lost) == pytest.approx(1, rel=1e-9)
    assert error_spectrum(board, lost)["relative_error"].iloc[-1] == pytest.approx(1, rel=1e-9)


def test_a_coarse_error_is_none_in_fine_detail():
    a = wave(0.375, size=0.2)
    b = a + wave(0.0625, size=0.2) - 0.5
    assert high_frequency_error(a, b) < 1e-9
    table = error_spectrum(a, b)
    assert table["radius"][table["error_power"].idxmax()] == pytest.approx(0.0625, abs=1 / 64)
    assert table["radius"][table["reference_power"].idxmax()] == pytest.approx(0.375, abs=1 / 64)


def test_a_shift_of_brightness_is_no_error():
    a = wave(0.375, size=0.2)
    assert high_frequency_error(a, a + 0.125) < 1e-12


def test_white_noise_has_its_variance_at_every_frequency():
    a = np.full((256, 256), 0.5)
    b = a + np.random.default_rng(0).normal(0, 0.1, a.shape)
    power = error_spectrum(a, b, bins=8)["error_power"]
    assert power.iloc[1:].to_numpy() == pytest.approx(0.01, rel=0.1)


@pytest.mark.parametrize("as_floats", [False, True])
@pytest.mark.parametrize("flat", [False, True])
def test_identical_pictures_give_exactly_zero(as_floats, flat):
    a = np.full((20, 20, 3), 77, np.uint8) if flat else noisy((20, 20, 3))[0]
    a = a / 255 if as_floats else a
    assert high_frequency_error(a, a) == 0.0
    assert (error_spectrum(a, a, bins=8)["relative_error"] == 0).all()


@pytest.mark.parametrize("level", [0, 77, 255])
def test_a_reference_of_one_colour_has_no_relative_error(level):
    a = np.full((20, 20, 3), level, np.uint8)
    _, b = noisy((20, 20, 3))
    with pytest.raises(ComparisonRefused, match="no detail finer than 4 pixels"):
        high_frequency_error(a, b)
    assert error_spectrum(a, b, bins=4)["relative_error"].isna().all()


def test_rings_without_a_frequency_are_not_a_number():
    table = error_spectrum(*noisy((16, 16)), bins=64)
    assert table["reference_power"].isna().any()
    assert len(table) == 64


@pytest.mark.parametrize("shape", [(5, 5), (6, 9), (15, 40)])
def test_tiny_pictures_are_refused(shape):
    for metric in (high_frequency_error, error_spectrum):
        with pytest.raises(ComparisonRefused, match=f"16 x 16 pixels, got {shape[0]} x {shape[1]}"):
            metric(*noisy((*shape, 3)))


def test_no_bins_are_refused():
    with pytest.raises(ComparisonRefused, match="bins=0 makes no spectrum"):
        error_spectrum(*noisy((20, 20)), bins=0)
