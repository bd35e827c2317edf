"""At which fineness of detail a picture departs from its reference."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from workbench.errors import ComparisonRefused
from workbench.eval.pictures import prepare, refuse_smaller

LUMA = (0.2126, 0.7152, 0.0722)  # of R, G, B: Rec. ITU-R BT.709-6, item 3.2
SIDE = 16  # pixels; below it the window leaves nothing to tell frequencies apart
FINE = 0.25  # cycles a pixel: details of less than two pixels from light to dark
NOTHING = 1e-20  # of power: rounding in float64; one step of one pixel in a million is 1e-11


class _Spectra(NamedTuple):
    radius: np.ndarray
    """Cycles a pixel, [height, width // 2 + 1], as the next two."""
    reference: np.ndarray
    error: np.ndarray
    times: np.ndarray
    """[width // 2 + 1]: how often a column stands in the whole transform."""


def error_spectrum(reference: Any, candidate: Any, bins: int = 32) -> pd.DataFrame:
    """Power of the reference and of the error by spatial frequency, on luma.

    Luma is that of Rec. 709, from 0 to 1, of the values as stored. From the reference and from the
    error (candidate minus reference) the mean is taken away, so a mere shift of brightness is no
    error here; a Hann window keeps the borders, where a picture does not go on periodically, from
    looking like fine detail. Power is |DFT|^2 over the sum of the squared window: white noise has
    its variance at every frequency.

    Args:
        reference: picture, as :func:`~workbench.eval.pictures.prepare` takes it, at least 16 pixels
            a side.
        candidate: picture of the same size.
        bins: rings of equal width from 0 to 0.5 cycles a pixel. The corners of the transform,
            diagonal detail from 0.5 to 0.71, count in the last one.

    Returns:
        One row a ring: radius (its middle, cycles a pixel), reference_power and error_power (means
        over the ring; not a number where a small picture has no frequency in it), relative_error
        (the root of error_power / reference_power; 0 where there is no error, not a number where
        the reference has no power).

    Raises:
        ComparisonRefused: as :func:`~workbench.eval.pictures.prepare` does; a smaller picture; no
            bins.
    """
    if bins < 1:
        raise ComparisonRefused(f"bins={bins!r} makes no spectrum; pass 1 or more, such as 32")
    found = _spectra(reference, candidate, "The error spectrum")
    ring = np.minimum((found.radius * 2 * bins).astype(int), bins - 1).ravel()

    def by_ring(values: np.ndarray) -> np.ndarray:
        return np.bincount(ring, (values * found.times).ravel(), minlength=bins)

    number = by_ring(np.ones_like(found.radius))
    with np.errstate(invalid="ignore"):
        power, error = by_ring(found.reference) / number, by_ring(found.error) / number
    return pd.DataFrame(
        {
            "radius": (np.arange(bins) + 0.5) / (2 * bins),
            "reference_power": power,
            "error_power": error,
            "relative_error": [_relative(e, p) for e, p in zip(error, power, strict=True)],
        }
    )


def high_frequency_error(reference: Any, candidate: Any) -> float:
    """Size of the error in fine detail, relative to the fine detail of the reference.

    The root of the error's power over the reference's, both summed over radii from 0.25 cycles a
    pixel, corners included; see :func:`error_spectrum`. 0.1: fine detail is off by a tenth of
    itself; 1: as if it were lost.

    Args:
        reference: picture, as :func:`~workbench.eval.pictures.prepare` takes it, at least 16 pixels
            a side.
        candidate: picture of the same size.

    Returns:
        From 0, and exactly 0 for identical pictures, without limit.

    Raises:
        ComparisonRefused: as :func:`~workbench.eval.pictures.prepare` does; a smaller picture; a
            reference without fine detail, such as one colour throughout, and an error that has
            some.
    """
    found = _spectra(reference, candidate, "The high-frequency error")
    fine = found.radius >= FINE
    times = np.broadcast_to(found.times, fine.shape)[fine]
    power, error = (np.average(p[fine], weights=times) for p in (found.reference, found.error))
    relative = _relative(error, power)
    if np.isnan(relative):
        raise ComparisonRefused(
            f"the reference has no detail finer than {1 / FINE:g} pixels (power {power:.2g}), so "
            "no error can be relative to it; use mae or psnr_db for this pair"
        )
    return relative


def _spectra(reference: Any, candidate: Any, metric: str) -> _Spectra:
    prepared = prepare(reference, candidate)
    refuse_smaller(prepared.reference, SIDE, metric)
    a, b = (_luma(p) / prepared.data_range for p in (prepared.reference, prepared.candidate))
    height, width = a.shape
    radius = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width))
    times = np.full(radius.shape[1], 2)
    times[0] = 1
    if width % 2 == 0:
        times[-1] = 1
    return _Spectra(radius, _power(a), _power(b - a), times)


def _luma(picture: np.ndarray) -> np.ndarray:
    """[h, w] of [h, w, 1 or 3]; float64."""
    return picture @ np.array(LUMA) if picture.shape[2] == 3 else picture[..., 0].astype(float)


def _power(values: np.ndarray) -> np.ndarray:
    window = np.outer(*(np.hanning(side + 1)[:-1] for side in values.shape))
    transform = np.fft.rfft2((values - values.mean()) * window)
    return (transform.real**2 + transform.imag**2) / (window**2).sum()


def _relative(error: float, power: float) -> float:
    if error == 0:
        return 0.0
    return float(np.sqrt(error / power)) if power > NOTHING else float("nan")
