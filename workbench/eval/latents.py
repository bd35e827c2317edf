"""How far one array of latents is from another."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.errors import ComparisonRefused


def relative_l2(reference: Any, candidate: Any) -> float:
    """||reference - candidate|| / ||reference|| over all values, in float64.

    The relative error in the Euclidean norm, https://en.wikipedia.org/wiki/Approximation_error

    Args:
        reference: array or tensor of any shape.
        candidate: the same shape.

    Returns:
        From 0, and exactly 0 for identical latents; infinity where the reference is 0 throughout;
        not a number where either holds one.

    Raises:
        ComparisonRefused: other shapes.
    """
    a, b = _flat(reference, candidate)
    distance = np.linalg.norm(a - b)
    with np.errstate(divide="ignore"):
        return 0.0 if distance == 0 else float(distance / np.linalg.norm(a))


def cosine(reference: Any, candidate: Any) -> float:
    """Cosine of the angle between the flattened latents, in float64.

    https://en.wikipedia.org/wiki/Cosine_similarity

    Args:
        reference: array or tensor of any shape.
        candidate: the same shape.

    Returns:
        From -1 to 1, and exactly 1 for identical latents; not a number where either holds one, or
        where one of the two is 0 throughout.

    Raises:
        ComparisonRefused: other shapes.
    """
    a, b = _flat(reference, candidate)
    if np.array_equal(a, b):
        return 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.clip(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)), -1, 1))


def _flat(reference: Any, candidate: Any) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.asarray(reference), np.asarray(candidate)
    if a.shape != b.shape or not a.size:
        raise ComparisonRefused(
            f"latents of shape {a.shape} and {b.shape}; both need the same shape, of at least one "
            "value: generate both at one height and width"
        )
    return a.ravel().astype(np.float64), b.ravel().astype(np.float64)
