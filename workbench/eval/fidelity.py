"""How close a picture is to its reference. The only importer of scikit-image."""

from __future__ import annotations

import numpy as np
import pandas as pd
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from workbench.errors import ComparisonRefused

WINDOW = 11  # side of the Gaussian window in pixels, Wang et al. 2004, section III-C


def psnr_db(reference: np.ndarray, candidate: np.ndarray) -> float:
    """Peak signal-to-noise ratio: 10 log10(255^2 / MSE) over all pixels and channels.

    Higher is closer; 20 dB is plainly different, above 40 dB the eye finds nothing.
    Source: https://scikit-image.org/docs/0.26.x/api/skimage.metrics.html#skimage.metrics.peak_signal_noise_ratio

    Args:
        reference: uint8 [height, width, 3].
        candidate: uint8 [height, width, 3].

    Returns:
        Decibels, from 0; infinity for identical pictures.

    Raises:
        ComparisonRefused: not two RGB pictures of one size.
    """
    _check(reference, candidate)
    if np.array_equal(reference, candidate):
        return float("inf")
    return float(peak_signal_noise_ratio(reference, candidate, data_range=255))


def ssim(reference: np.ndarray, candidate: np.ndarray) -> float:
    """Structural similarity, mean over pixels and RGB channels; 11 x 11 Gaussian window, sigma 1.5.

    Parameters of Wang et al. 2004, https://doi.org/10.1109/TIP.2003.819861, equation 13, with
    K1 = 0.01 and K2 = 0.03; scikit-image leaves out the 5 pixels at each border.

    Args:
        reference: uint8 [height, width, 3], at least 11 pixels a side.
        candidate: uint8 [height, width, 3].

    Returns:
        From -1 to 1; 1 for identical pictures.

    Raises:
        ComparisonRefused: not two RGB pictures of one size, or smaller than the window.
    """
    _check(reference, candidate)
    if min(reference.shape[:2]) < WINDOW:
        height, width = reference.shape[:2]
        raise ComparisonRefused(
            f"SSIM needs at least {WINDOW} x {WINDOW} pixels, got {height} x {width}; draw larger "
            "pictures"
        )
    return float(
        structural_similarity(
            reference,
            candidate,
            channel_axis=2,
            data_range=255,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
        )
    )


def spread(values: pd.Series) -> dict[str, float]:
    """Minimum, quartiles and maximum of the finite values; not a number where there is none.

    Infinite values (PSNR of identical pictures) are left out, so that they never poison a mean.
    """
    finite = values[np.isfinite(values.to_numpy(float))].astype(float)
    names = {"min": 0.0, "q1": 0.25, "median": 0.5, "q3": 0.75, "max": 1.0}
    return {"finite": len(finite)} | {
        name: float(finite.quantile(at)) for name, at in names.items()
    }


def _check(reference: np.ndarray, candidate: np.ndarray) -> None:
    for role, picture in (("reference", reference), ("candidate", candidate)):
        if picture.dtype != np.uint8:
            raise ComparisonRefused(
                f"the {role} holds {picture.dtype}, and pictures are compared as uint8 from 0 to "
                "255; "
                "convert it with (255 * picture).round().astype('uint8')"
            )
        if picture.ndim != 3 or picture.shape[2] != 3:
            raise ComparisonRefused(
                f"the {role} has shape {picture.shape}, and pictures are [height, width, 3]; "
                "convert it with image.convert('RGB')"
            )
    if reference.shape != candidate.shape:
        raise ComparisonRefused(
            f"the reference has shape {reference.shape} and the candidate {candidate.shape}; "
            "generate both at one height and width"
        )
