import flip_evaluator
import numpy as np
import pytest

from workbench.eval import flip_error
from workbench.eval.flip_error import flip, flip_map
from workbench.eval.flip_filters import (
    PIXELS_PER_DEGREE,
    contrast_sensitivity,
    feature_detectors,
)

SIZES = [(2, 2), (5, 5), (6, 9), (21, 40), (64, 48), (127, 30), (129, 30), (300, 70)]


def smooth_and_noisy(shape, seed=0, noise=12):
    source = np.random.default_rng(seed)
    y, x = np.mgrid[0 : shape[0], 0 : shape[1]] / 20
    waves = np.stack([np.sin(x * f + y) for f in (1, 2, 3)], axis=-1)
    a = 127 + 100 * waves
    b = a + source.normal(0, noise, a.shape)
    return tuple(np.clip(p, 0, 255).round().astype(np.uint8) for p in (a, b))


def unlike(shape, seed=0):
    source = np.random.default_rng(seed)
    return tuple(source.integers(0, 256, (*shape, 3)).astype(np.uint8) for _ in range(2))


def by_nvidia(a, b):
    """Map and mean of NVIDIA's own code."""
    a, b = ((p / np.float32(255)).astype(np.float32) for p in (a, b))
    found, mean, _ = flip_evaluator.evaluate(a, b, "LDR", applyMagma=False, computeMeanError=True)
    return np.asarray(found).reshape(a.shape[:2]), mean


@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("make", [smooth_and_noisy, unlike])
def test_map_and_mean_match_those_of_its_authors(make, shape):
    a, b = make(shape)
    expected, mean = by_nvidia(a, b)
    assert np.abs(flip_map(a, b) - expected).max() < 1e-4
    assert flip(a, b) == pytest.approx(mean, abs=1e-5)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((0, 0, 0), (255, 255, 255)),
        ((0, 255, 0), (0, 0, 255)),
        ((10, 10, 10), (12, 12, 12)),
        ((200, 30, 30), (30, 200, 30)),
        ((3, 2, 1), (1, 2, 3)),
    ],
)
def test_constant_pictures_match_those_of_its_authors(a, b):
    a, b = (np.full((12, 15, 3), colour, np.uint8) for colour in (a, b))
    found = flip_map(a, b)
    assert np.ptp(found) < 1e-5
    assert flip(a, b) == pytest.approx(by_nvidia(a, b)[1], abs=1e-5)


def test_the_farthest_colours_differ_by_one():
    green, blue = (np.full((12, 15, 3), c, np.uint8) for c in ((0, 255, 0), (0, 0, 255)))
    assert flip(green, blue) == pytest.approx(1, abs=1e-5)


def test_identical_pictures_differ_by_exactly_zero():
    a, _ = unlike((40, 30))
    assert flip(a, a.copy()) == 0.0
    assert flip(a / 255, a / 255) == 0.0


def test_floats_are_srgb_as_bytes_are():
    a, b = smooth_and_noisy((40, 30))
    assert np.abs(flip_map(a / 255, b / 255) - flip_map(a, b)).max() < 1e-5


def test_gray_is_rgb_with_equal_channels():
    a, b = (p[..., 0] for p in unlike((40, 30)))
    expected = flip_map(*(np.dstack([p] * 3) for p in (a, b)))
    assert np.array_equal(flip_map(a, b), expected)


def test_the_map_is_a_map_of_shares():
    found = flip_map(*unlike((40, 30)))
    assert (found.shape, found.dtype) == ((40, 30), np.float32)
    assert 0 <= found.min() <= found.max() <= 1


def test_the_map_does_not_depend_on_where_strips_end(monkeypatch):
    a, b = smooth_and_noisy((90, 40))
    whole = flip_map(a, b)
    monkeypatch.setattr(flip_error, "ROWS", 7)
    assert np.abs(flip_map(a, b) - whole).max() < 1e-5


def test_the_same_pictures_give_the_same_bits():
    a, b = smooth_and_noisy((90, 192))
    first = flip_map(a, b)
    kept = []  # moves what comes later to other addresses
    for number in range(8):
        kept.append(np.empty(1000 + 16 * number, np.uint8))
        assert np.array_equal(flip_map(a, b), first)


def test_the_display_is_that_of_the_paper():
    assert pytest.approx(67.0206, abs=1e-4) == PIXELS_PER_DEGREE


@pytest.mark.parametrize("channel", "ARB")
def test_a_sensitivity_is_the_sum_of_gaussians_of_the_paper(channel):
    """Against the filter in two dimensions, straight from its table."""
    table = {
        "A": [(1.0, 0.0047)],
        "R": [(1.0, 0.0053)],
        "B": [(34.1, 0.04), (13.5, 0.025)],
    }
    at = np.arange(-10, 11) / 67.0206433
    square = at[:, None] ** 2 + at**2
    expected = sum(
        a * np.sqrt(np.pi / b) * np.exp(-(np.pi**2) * square / b) for a, b in table[channel]
    )
    found = np.zeros((21, 21))
    for weight, taps in contrast_sensitivity(channel):
        edge = (21 - len(taps)) // 2
        whole = np.pad(taps, edge)
        found += weight * np.outer(whole, whole)
    assert np.abs(found - expected / expected.sum()).max() < 1e-6


def test_detectors_are_balanced():
    smooth, edge, point = feature_detectors()
    assert smooth.sum() == pytest.approx(1)
    for kernel in (edge, point):
        assert kernel[kernel > 0].sum() == pytest.approx(1)
        assert kernel[kernel < 0].sum() == pytest.approx(-1)
