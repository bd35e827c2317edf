import numpy as np
import pytest
import torch

from workbench.errors import ComparisonRefused
from workbench.eval.latents import cosine, relative_l2


def latents(seed=0, shape=(2, 4, 8)):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_known_by_hand():
    a, b = [3.0, 4.0], [3.0, 0.0]
    assert relative_l2(a, b) == pytest.approx(0.8)
    assert cosine(a, b) == pytest.approx(0.6)
    assert cosine(a, [-3.0, -4.0]) == -1.0


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 4, 8), (1, 2, 3, 4)])
def test_they_match_plain_sums_whatever_the_shape(shape):
    a, b = latents(0, shape), latents(1, shape)
    xs, ys = a.ravel().tolist(), b.ravel().tolist()
    length_x, length_y = (sum(v * v for v in values) ** 0.5 for values in (xs, ys))
    distance = sum((x - y) ** 2 for x, y in zip(xs, ys, strict=True)) ** 0.5
    product = sum(x * y for x, y in zip(xs, ys, strict=True))
    assert relative_l2(a, b) == pytest.approx(distance / length_x, rel=1e-12)
    assert cosine(a, b) == pytest.approx(product / (length_x * length_y), rel=1e-12)


@pytest.mark.parametrize("scale", [1, 1e-30, 1e30, 0])
def test_identical_latents_give_exactly_zero_and_one(scale):
    a = latents() * np.float32(scale)
    assert relative_l2(a, a.copy()) == 0.0
    assert cosine(a, a.copy()) == 1.0


def test_sums_are_in_float64():
    a = np.full(10_000, 1e25, np.float32)  # whose square float32 cannot hold
    assert relative_l2(a, 2 * a) == pytest.approx(1)
    assert cosine(a, 2 * a) == pytest.approx(1)


def test_tensors_are_taken_too():
    a, b = latents(0), latents(1)
    assert relative_l2(torch.from_numpy(a), torch.from_numpy(b)) == relative_l2(a, b)


def test_a_reference_of_zeros_has_no_direction():
    assert relative_l2(np.zeros(3), np.ones(3)) == float("inf")
    assert np.isnan(cosine(np.zeros(3), np.ones(3)))


def test_what_is_not_a_number_stays_so():
    assert np.isnan(relative_l2([1.0, 2.0], [1.0, np.nan]))
    assert np.isnan(cosine([1.0, 2.0], [1.0, np.nan]))


@pytest.mark.parametrize("metric", [relative_l2, cosine])
def test_other_shapes_are_refused(metric):
    with pytest.raises(ComparisonRefused, match=r"shape \(2, 4, 8\) and \(8, 4, 2\)"):
        metric(latents(), latents(shape=(8, 4, 2)))
