"""How close a picture is to its reference: PSNR, SSIM and mean absolute error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np

from workbench.eval.pictures import prepare, refuse_smaller

WINDOW = 11  # side of the Gaussian window in pixels, Wang et al. 2004, section III-C
SIGMA, K1, K2 = 1.5, 0.01, 0.03  # the same section
ROWS = 96  # that are filtered at a time, so that all of it stays in the processor's cache

_TAPS = np.exp(-(np.arange(-(WINDOW // 2), WINDOW // 2 + 1) ** 2) / (2 * SIGMA**2))
_TAPS /= _TAPS.sum()


def psnr_db(reference: Any, candidate: Any) -> float:
    """Peak signal-to-noise ratio: 10 log10(white^2 / MSE) over all pixels and channels.

    Higher is closer; 20 dB is plainly different, above 40 dB the eye finds nothing.
    Source: https://en.wikipedia.org/wiki/Peak_signal-to-noise_ratio

    Args:
        reference: picture, as :func:`~workbench.eval.pictures.prepare` takes it.
        candidate: picture of the same size.

    Returns:
        Decibels, from 0; infinity for identical pictures.

    Raises:
        ComparisonRefused: as :func:`~workbench.eval.pictures.prepare` does.
    """
    prepared = prepare(reference, candidate)
    a, b = prepared.reference, prepared.candidate
    mse = cv2.norm(a, b, cv2.NORM_L2SQR) / a.size
    return float(10 * np.log10(prepared.data_range**2 / mse)) if mse else float("inf")


def mean_absolute_error(reference: Any, candidate: Any) -> float:
    """Mean of |reference - candidate| over all pixels and channels, as a share of white.

    Source: https://en.wikipedia.org/wiki/Mean_absolute_error

    Args:
        reference: picture, as :func:`~workbench.eval.pictures.prepare` takes it.
        candidate: picture of the same size.

    Returns:
        From 0, identical, to 1; one step of 256 everywhere is 1 / 255 = 0.0039.

    Raises:
        ComparisonRefused: as :func:`~workbench.eval.pictures.prepare` does.
    """
    prepared = prepare(reference, candidate)
    a, b = prepared.reference, prepared.candidate
    return cv2.norm(a, b, cv2.NORM_L1) / (a.size * prepared.data_range)


def ssim(reference: Any, candidate: Any) -> float:
    """Structural similarity, mean over pixels and channels; 11 x 11 Gaussian window, sigma 1.5.

    Wang et al. 2004, https://doi.org/10.1109/TIP.2003.819861, equation 13, with K1 = 0.01,
    K2 = 0.03 and the population covariance. The 5 pixels at each border, where the window does not
    fit, are left out, as scikit-image does. In float64.

    Args:
        reference: picture, as :func:`~workbench.eval.pictures.prepare` takes it, at least 11 pixels
            a side.
        candidate: picture of the same size.

    Returns:
        From -1 to 1; exactly 1 for identical pictures.

    Raises:
        ComparisonRefused: as :func:`~workbench.eval.pictures.prepare` does, or smaller than the
            window.
    """
    prepared = prepare(reference, candidate)
    a, b = prepared.reference, prepared.candidate
    refuse_smaller(a, WINDOW, "SSIM")
    scratch = np.empty((6, ROWS + WINDOW - 1, a.shape[1]))
    inside = (len(a) - WINDOW + 1) * (a.shape[1] - WINDOW + 1) * a.shape[2]
    both = zip(cv2.split(a), cv2.split(b), strict=True)
    strips = (strip for planes in both for strip in _strips(*planes))
    return float(sum(_similarity(*two, prepared.data_range, scratch) for two in strips) / inside)


def _strips(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Strips of both, each with the rows above and below that its windows reach."""
    for top in range(0, len(a) - WINDOW + 1, ROWS):
        rows = slice(top, top + ROWS + WINDOW - 1)
        yield a[rows], b[rows]


def _similarity(a: np.ndarray, b: np.ndarray, white: float, scratch: np.ndarray) -> float:
    """Sum of SSIM over the pixels of one channel whose window lies inside the strip.

    Written in s = a + b and d = a - b: both variances and the covariance of a and b follow from the
    variances of s and d, so four filters do the work of five; and d = 0 gives exactly 1. Everything
    is written over ``scratch``, since fresh memory would take longer than the arithmetic.
    """
    s, d, mean_s, mean_d, variance_s, variance_d = scratch[:, : len(a)]
    np.add(a, b, out=s, dtype=np.float64)
    np.subtract(a, b, out=d, dtype=np.float64)
    for values, mean, variance in ((s, mean_s, variance_s), (d, mean_d, variance_d)):
        _smooth(values, mean)
        values *= values
        _smooth(values, variance)
        mean *= mean
        variance -= mean
    mean_s += 2 * (K1 * white) ** 2
    variance_s += 2 * (K2 * white) ** 2
    above = np.subtract(mean_s, mean_d, out=s)
    above *= np.subtract(variance_s, variance_d, out=d)
    mean_s += mean_d
    variance_s += variance_d
    mean_s *= variance_s
    above /= mean_s
    edge = WINDOW // 2
    return above[edge:-edge, edge:-edge].sum()


def _smooth(values: np.ndarray, out: np.ndarray) -> None:
    """Gaussian mean around each pixel; wrong at the borders, which nobody reads."""
    cv2.sepFilter2D(values, cv2.CV_64F, _TAPS, _TAPS, dst=out)
