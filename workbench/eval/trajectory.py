"""Where two denoising runs part, step by step."""

from __future__ import annotations

import numpy as np
import pandas as pd

from workbench.errors import ComparisonRefused
from workbench.records import Trajectory


def divergence(reference: Trajectory, candidate: Trajectory) -> pd.DataFrame:
    """Distance of the candidate's latents from the reference's, after each step.

    ``relative_l2`` is ||reference - candidate|| / ||reference||, ``cosine`` the cosine of the angle
    between the flattened latents (https://en.wikipedia.org/wiki/Cosine_similarity), both in
    float64.

    Args:
        reference: latents [steps + 1, ...] and timesteps [steps].
        candidate: the same shapes and timesteps, from the same initial noise.

    Returns:
        ``steps + 1`` rows: step (0 is the initial noise), timestep (at which the step was taken;
        not a number for step 0), relative_l2 (from 0), cosine (-1 to 1).

    Raises:
        ComparisonRefused: other timesteps, shapes or initial noise.
    """
    _refuse_unaligned(reference, candidate)
    a, b = (_flat(trajectory) for trajectory in (reference, candidate))  # [steps + 1, values]
    distance, size_a, size_b = (np.linalg.norm(x, axis=1) for x in (a - b, a, b))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative_l2 = np.where(distance == 0, 0.0, distance / size_a)
        cosine = np.where(
            distance == 0, 1.0, np.clip((a * b).sum(axis=1) / (size_a * size_b), -1, 1)
        )
    return pd.DataFrame(
        {
            "step": np.arange(len(a)),
            "timestep": np.concatenate([[np.nan], reference.timesteps]),
            "relative_l2": relative_l2,
            "cosine": cosine,
        }
    )


def envelope(steps: pd.DataFrame) -> pd.Series:
    """Largest relative L2 over all pairs at each step: the noise floor of a repeat run.

    Returns:
        Index ``step``, value ``relative_l2``; not a number where any pair has none.
    """
    return steps.groupby("step")["relative_l2"].agg(lambda values: values.max(skipna=False))


def first_step_outside(steps: pd.DataFrame, floor: pd.Series | None) -> int | None:
    """First step at which one pair leaves the noise floor, or stops being a number.

    On a floor of exactly 0 (the reference repeats bit by bit) that is the first step that differs.

    Args:
        steps: rows of :func:`divergence` of one pair.
        floor: :func:`envelope` of the floor; None where no floor was measured.

    Returns:
        The step, or None: inside throughout, or no floor to leave.

    Raises:
        ComparisonRefused: the floor was measured over other steps.
    """
    relative_l2 = steps.set_index("step")["relative_l2"]
    if floor is None:
        outside = relative_l2.isna()
    elif not floor.index.equals(relative_l2.index):
        raise ComparisonRefused(
            f"the floor has steps {_range(floor.index)} and this pair {_range(relative_l2.index)}; "
            "measure the floor with the same num_inference_steps"
        )
    else:
        outside = ~(relative_l2 <= floor)  # true for NaN on either side
    return int(outside.idxmax()) if outside.any() else None


def _refuse_unaligned(reference: Trajectory, candidate: Trajectory) -> None:
    a, b = reference.timesteps, candidate.timesteps
    if not np.array_equal(a, b):
        raise ComparisonRefused(
            f"the timesteps differ: {_differing(a, b)}; generate both with one scheduler and "
            "num_inference_steps"
        )
    if reference.latents.shape != candidate.latents.shape:
        raise ComparisonRefused(
            f"latents of shape {reference.latents.shape} and {candidate.latents.shape}; "
            "generate both at one height and width"
        )
    if not np.array_equal(reference.latents[0], candidate.latents[0]):
        off = np.abs(reference.latents[0] - candidate.latents[0]).max()
        raise ComparisonRefused(
            f"the initial latents differ by up to {off:.3g}, so the runs had different noise; "
            "generate both with the same seed and generator_device='cpu'"
        )


def _differing(a: np.ndarray, b: np.ndarray) -> str:
    if len(a) != len(b):
        return f"{len(a)} steps against {len(b)} ({_listed(a)} against {_listed(b)})"
    at = np.flatnonzero(a != b)
    return f"{_listed(a[at])} against {_listed(b[at])} at steps {_listed(at + 1)}"


def _listed(values: np.ndarray) -> str:
    return ", ".join(f"{value:g}" for value in values[:4]) + (", ..." if len(values) > 4 else "")


def _range(index: pd.Index) -> str:
    return f"{index.min()} to {index.max()}"


def _flat(trajectory: Trajectory) -> np.ndarray:
    return trajectory.latents.reshape(len(trajectory.latents), -1).astype(np.float64)
