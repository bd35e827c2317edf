"""The filters of FLIP, each as one-dimensional kernels for the viewing conditions of the paper."""

from __future__ import annotations

from functools import cache

import numpy as np

# A display of 3840 pixels on 0.7 m, seen from 0.7 m: 67.02 pixels a degree.
PIXELS_PER_DEGREE = 0.7 * (3840 / 0.7) * np.pi / 180
# (a, b) of the Gaussians of each channel: A lightness, R red-green, B blue-yellow.
SENSITIVITY = {
    "A": ((1.0, 0.0047),),
    "R": ((1.0, 0.0053),),
    "B": ((34.1, 0.04), (13.5, 0.025)),
}
FEATURE_WIDTH = 0.082  # w, in degrees
# Pixels that the widest filter reaches: three standard deviations of the widest Gaussian.
REACH = int(np.ceil(3 * np.sqrt(0.04 / (2 * np.pi**2)) * PIXELS_PER_DEGREE))
NEGLIGIBLE = 1e-6  # of the middle tap; leaving such taps out moves no value by a millionth

Kernel = np.ndarray


@cache
def contrast_sensitivity(channel: str) -> tuple[tuple[float, Kernel], ...]:
    """Contrast sensitivity of the eye, as a weighted sum of Gaussians in space.

    A Gaussian of x and y is the product of one of x and one of y. All channels are cut at the same
    reach, and scaled so that a flat picture stays as it is.

    Args:
        channel: ``"A"``, ``"R"`` or ``"B"``.

    Returns:
        (weight, kernel [taps]) of each Gaussian; the kernels and the weights sum to 1.
    """
    degrees = np.arange(-REACH, REACH + 1) / PIXELS_PER_DEGREE
    raw = [np.exp(-(np.pi**2) * degrees**2 / b) for _, b in SENSITIVITY[channel]]
    heights = [a * np.sqrt(np.pi / b) for a, b in SENSITIVITY[channel]]
    shares = [height * kernel.sum() ** 2 for height, kernel in zip(heights, raw, strict=True)]
    kernels = [kernel[kernel > NEGLIGIBLE] for kernel in raw]
    return tuple(
        (share / sum(shares), kernel / kernel.sum())
        for share, kernel in zip(shares, kernels, strict=True)
    )


@cache
def feature_detectors() -> tuple[Kernel, Kernel, Kernel]:
    """Gaussian, its first derivative (edges) and its second (points).

    Returns:
        Three kernels [taps]. The Gaussian sums to 1; the positive taps of each derivative sum to 1
        and the negative ones to -1, so that the strongest edge or point gives 1.
    """
    sigma = 0.5 * FEATURE_WIDTH * PIXELS_PER_DEGREE
    radius = int(np.ceil(3 * sigma))
    x = np.arange(-radius, radius + 1, dtype=np.float64)
    smooth = np.exp(-(x**2) / (2 * sigma**2))
    edge, point = -x * smooth, (x**2 / sigma**2 - 1) * smooth
    return smooth / smooth.sum(), _balanced(edge), _balanced(point)


def _balanced(kernel: Kernel) -> Kernel:
    positive, negative = np.maximum(kernel, 0), np.minimum(kernel, 0)
    return positive / positive.sum() - negative / negative.sum()
