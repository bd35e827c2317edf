"""The colour spaces of FLIP: the opponent space that is filtered, and Hunt-adjusted L*a*b*."""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np

Planes = tuple[np.ndarray, np.ndarray, np.ndarray]

# CIE xy of the primaries of sRGB (IEC 61966-2-1) and of D65.
PRIMARIES, WHITE = ((0.64, 0.33), (0.30, 0.60), (0.15, 0.06)), (0.31271, 0.32902)
BEND = (6 / 29) ** 3  # where the cube root of L*a*b* becomes a line, CIE 15:2004


def opponent(picture: np.ndarray) -> Planes:
    """Planes Y, Cx, Cz of sRGB: L*a*b* without its cube roots.

    Args:
        picture: [h, w, 3], uint8 from 0 to 255 or floats from 0 to 1.

    Returns:
        float32 [h, w] each; Y from -16 to 100.
    """
    return _planes(_linear(picture), _to_opponent())


def hunt_lab(planes: Planes) -> Planes:
    """L*, and a* and b* scaled by L* / 100: in the dark, colours are seen less (the Hunt effect).

    Args:
        planes: Y, Cx, Cz as of :func:`opponent`; colours outside sRGB are clamped to it.

    Returns:
        float32 [h, w] each; L* from 0 to 100.
    """
    linear = cv2.transform(cv2.merge(planes), _from_opponent())
    return _hunt_lab(np.clip(linear, 0, 1, out=linear))


def hyab(a: Planes, b: Planes) -> np.ndarray:
    """HyAB distance: the lightnesses by their difference, a* and b* by their Euclidean distance."""
    lightness, green_red, blue_yellow = (cv2.absdiff(x, y) for x, y in zip(a, b, strict=True))
    return cv2.add(lightness, length(green_red, blue_yellow))


def length(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """sqrt(x^2 + y^2), written over both; cv2.magnitude differs by a bit from call to call."""
    x *= x
    y *= y
    x += y
    return np.sqrt(x, out=x)


@cache
def farthest() -> float:
    """HyAB distance of green and blue, the colours of sRGB that are farthest apart."""
    green, blue = np.array([[[0, 1, 0]]], np.float32), np.array([[[0, 0, 1]]], np.float32)
    return float(hyab(_hunt_lab(green), _hunt_lab(blue))[0, 0])


def _linear(picture: np.ndarray) -> np.ndarray:
    """float32 linear RGB, 0 to 1; IEC 61966-2-1."""
    if picture.dtype == np.uint8:
        return cv2.LUT(picture, _linear_bytes())
    low, high = picture / 12.92, ((picture + 0.055) / 1.055) ** 2.4
    return np.where(picture <= 0.04045, low, high).astype(np.float32)


@cache
def _linear_bytes() -> np.ndarray:
    return _linear(np.arange(256) / 255.0)


def _hunt_lab(linear: np.ndarray) -> Planes:
    x, y, z = map(_root, _planes(linear, _to_white()))
    lightness = 116 * y - 16
    return lightness, (x - y) * (5 * lightness), (y - z) * (2 * lightness)


def _planes(picture: np.ndarray, matrix: np.ndarray) -> Planes:
    """Three combinations of the channels; each at once is faster than cv2.split afterwards."""
    return tuple(cv2.transform(picture, row[None]) for row in matrix)


def _root(share: np.ndarray) -> np.ndarray:
    """The cube root of L*a*b*: its line below the bend is added to the root at the bend."""
    line = cv2.min(share, BEND)
    line -= BEND
    line *= (29 / 6) ** 2 / 3
    root = cv2.pow(cv2.max(share, BEND), 1 / 3)
    root += line
    return root


@cache
def _to_white() -> np.ndarray:
    """Linear RGB to XYZ as shares of white: the primaries, scaled to add up to white."""
    columns, white = (
        np.array([(x / y, 1.0, (1 - x - y) / y) for x, y in points]).T
        for points in (PRIMARIES, (WHITE,))
    )
    return columns * np.linalg.solve(columns, white[:, 0]) / white


@cache
def _to_opponent() -> np.ndarray:
    """[3, 4]: linear RGB to Y, Cx, Cz; the last column is added."""
    opponent = np.array([[0, 116, 0], [500, -500, 0], [0, 200, -200.0]]) @ _to_white()
    return np.column_stack([opponent, [-16, 0, 0]])


@cache
def _from_opponent() -> np.ndarray:
    inverse = np.linalg.inv(_to_opponent()[:, :3])
    return np.column_stack([inverse, -inverse @ _to_opponent()[:, 3]])
