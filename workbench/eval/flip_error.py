"""FLIP: the difference that an eye sees when it flips between two pictures.

Andersson et al. 2020, "FLIP: A Difference Evaluator for Alternating Images",
https://doi.org/10.1145/3406183. Names of numbers are those of the paper. Each of its filters is a
sum of separable ones, so each runs as one-dimensional passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np

from workbench.eval.flip_colours import Planes, farthest, hunt_lab, hyab, length, opponent
from workbench.eval.flip_filters import REACH, contrast_sensitivity, feature_detectors
from workbench.eval.pictures import prepare, rgb

QC = 0.7  # exponent of the colour difference
PC, PT = 0.4, 0.95  # this share of the largest colour difference takes this share of the result
QF = 0.5  # exponent of the feature difference
ROWS = 128  # that are compared at a time, so that all of it stays in the processor's cache
LIGHTNESS = 116  # from black to white in Y
LEAST = 1e-30  # stands for 0 under a logarithm


def flip(reference: Any, candidate: Any) -> float:
    """Mean of :func:`flip_map` over all pixels.

    Args:
        reference: picture, as :func:`~workbench.eval.pictures.prepare` takes it.
        candidate: picture of the same size.

    Returns:
        From 0, identical, to 1.

    Raises:
        ComparisonRefused: as :func:`~workbench.eval.pictures.prepare` does.
    """
    return float(flip_map(reference, candidate).mean(dtype=np.float64))


def flip_map(reference: Any, candidate: Any) -> np.ndarray:
    """LDR-FLIP of each pixel, seen from 0.7 m on a display of 3840 pixels on 0.7 m.

    The colour difference to the power of one minus the feature difference. Beyond its border, a
    picture goes on as its last pixel.

    Args:
        reference: picture, as :func:`~workbench.eval.pictures.prepare` takes it; its values are
            sRGB, floats too. Gray is RGB with equal channels.
        candidate: picture of the same size.

    Returns:
        float32 [height, width], from 0 (nothing seen) to 1.

    Raises:
        ComparisonRefused: as :func:`~workbench.eval.pictures.prepare` does.
    """
    prepared = prepare(reference, candidate)
    error = np.empty(prepared.reference.shape[:2], np.float32)
    for around, rows, inside in _strips(len(error)):
        a, b = (
            opponent(rgb(picture[around])) for picture in (prepared.reference, prepared.candidate)
        )
        error[rows] = _combined(_colour_difference(a, b, inside), _feature_difference(a, b, inside))
    return error


def _strips(height: int) -> Iterator[tuple[slice, slice, slice]]:
    """Rows with those that filters reach; the rows themselves; the same, counted in the first."""
    for top in range(0, height, ROWS):
        start, stop = max(0, top - REACH), min(top + ROWS, height)
        yield slice(start, stop + REACH), slice(top, stop), slice(top - start, stop - start)


def _combined(colour: np.ndarray, feature: np.ndarray) -> np.ndarray:
    error = cv2.exp(cv2.log(cv2.max(colour, LEAST)) * (1 - feature))
    error[colour == 0] = 0
    return cv2.min(error, 1.0)


def _colour_difference(a: Planes, b: Planes, inside: slice) -> np.ndarray:
    """HyAB distance of what the eye resolves, compressed and mapped to 0 to 1."""
    distance = cv2.pow(hyab(_seen(a, inside), _seen(b, inside)), QC)
    largest = farthest() ** QC
    below = cv2.min(distance, PC * largest)
    distance -= below
    below *= PT / (PC * largest)
    distance *= (1 - PT) / (largest - PC * largest)
    return cv2.add(below, distance)


def _seen(planes: Planes, inside: slice) -> Planes:
    """Planes through the contrast sensitivity of the eye, to Hunt-adjusted L*a*b*."""
    return hunt_lab(tuple(_blurred(p, c, inside) for p, c in zip(planes, "ARB", strict=True)))


def _blurred(plane: np.ndarray, channel: str, inside: slice) -> np.ndarray:
    parts = [_filtered(plane, weight * k, k, inside) for weight, k in contrast_sensitivity(channel)]
    return parts[0] if len(parts) == 1 else cv2.add(*parts)


def _feature_difference(a: Planes, b: Planes, inside: slice) -> np.ndarray:
    """The larger of the differences in edges and in points, compressed to 0 to 1."""
    pairs = zip(_features(a[0], inside), _features(b[0], inside), strict=True)
    edges, points = (cv2.absdiff(x, y) for x, y in pairs)
    return cv2.pow(cv2.max(edges, points) * np.float32(np.sqrt(0.5)), QF)


def _features(lightness: np.ndarray, inside: slice) -> list[np.ndarray]:
    """Strength of edges and of points in the unfiltered lightness, scaled to 0 to 1."""
    smooth, *detectors = feature_detectors()
    smooth = smooth / LIGHTNESS  # black being no 0 does not matter: detectors sum to 0
    return [
        length(_filtered(lightness, k, smooth, inside), _filtered(lightness, smooth, k, inside))
        for k in detectors
    ]


def _filtered(plane: np.ndarray, along: np.ndarray, down: np.ndarray, inside: slice) -> np.ndarray:
    whole = cv2.sepFilter2D(plane, cv2.CV_32F, along, down, borderType=cv2.BORDER_REPLICATE)
    return whole[inside]
