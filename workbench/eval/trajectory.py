"""Where two denoising runs part, step by step."""

from __future__ import annotations

import numpy as np
import pandas as pd

from workbench.errors import ComparisonRefused
from workbench.records import Trajectory

SAME_TIMESTEP = 1e-5  # relative: engines round the same schedule in other dtypes


def divergence(reference: Trajectory, candidate: Trajectory) -> pd.DataFrame:
    """Distance of the candidate's latents from the reference's, after each step.

    With the error ``e = reference - candidate``, both flattened, in float64:
    ``relative_l2`` is ||e|| / ||reference||; ``cosine`` the cosine of the angle between the latents
    (https://en.wikipedia.org/wiki/Cosine_similarity); ``signal_to_error_db`` is
    20 log10(||reference|| / ||e||); ``share_of_final`` is ||e|| / ||e after the last step||.

    Args:
        reference: latents [steps + 1, ...] and timesteps [steps].
        candidate: the same shapes and timesteps, from the same initial noise.

    Returns:
        ``steps + 1`` rows: step (0 is the initial noise), timestep (at which the step was taken;
        not a number for step 0), relative_l2 (from 0), cosine (-1 to 1), signal_to_error_db
        (infinite without an error), share_of_final (from 0, 1 in the last row; infinite
        where runs that parted end alike).

    Raises:
        ComparisonRefused: other timesteps, shapes or initial noise.
    """
    refuse_unaligned(reference, candidate)
    return pd.DataFrame(
        {
            "step": np.arange(len(reference.latents)),
            "timestep": np.concatenate([[np.nan], reference.timesteps]),
            **distances(reference.latents, candidate.latents),
        }
    )


def distances(reference: np.ndarray, candidate: np.ndarray) -> dict[str, np.ndarray]:
    """The measures of :func:`divergence` for two arrays [steps, ...], one value a step."""
    a, b = (array.reshape(len(array), -1).astype(np.float64) for array in (reference, candidate))
    error, size_a, size_b = (np.linalg.norm(x, axis=1) for x in (a - b, a, b))
    with np.errstate(divide="ignore", invalid="ignore"):
        cosine = np.clip((a * b).sum(axis=1) / (size_a * size_b), -1, 1)
        return {
            "relative_l2": np.where(error == 0, 0.0, error / size_a),
            "cosine": np.where(error == 0, 1.0, cosine),
            "signal_to_error_db": np.where(error == 0, np.inf, 20 * np.log10(size_a / error)),
            "share_of_final": np.where(error == 0, 0.0, error / error[-1]),
        }


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


def first_not_finite(trajectory: Trajectory) -> int | None:
    """The first step whose latents hold NaN or infinity; 0 is the initial noise."""
    bad = ~np.isfinite(trajectory.latents.reshape(len(trajectory.latents), -1)).all(axis=1)
    return int(bad.argmax()) if bad.any() else None


def refuse_unaligned(reference: Trajectory, candidate: Trajectory) -> None:
    """Refuse two runs whose steps are not taken at the same timesteps from the same noise.

    Raises:
        ComparisonRefused: says which steps one of them lacks, or what differs.
    """
    for role, one in (("reference", reference), ("candidate", candidate)):
        if len(one.latents) != len(one.timesteps) + 1:
            raise ComparisonRefused(
                f"the {role} holds {len(one.latents)} latents for {len(one.timesteps)} steps, and "
                f"the initial noise with one a step makes {len(one.timesteps) + 1}; "
                "was the noise recorded? Generate it again with force=True"
            )
    refuse_other_timesteps(reference.timesteps, candidate.timesteps)
    if reference.latents.shape != candidate.latents.shape:
        raise ComparisonRefused(
            f"latents of shape {reference.latents.shape} and {candidate.latents.shape}; "
            "generate both at one height and width"
        )
    if not np.array_equal(reference.latents[0], candidate.latents[0], equal_nan=True):
        off = np.abs(reference.latents[0] - candidate.latents[0]).max()
        raise ComparisonRefused(
            f"the initial latents differ by up to {off:.3g}, so the runs had different noise; "
            "generate both again here at one dtype, with force=True"
        )


def refuse_other_timesteps(a: np.ndarray, b: np.ndarray) -> None:
    """Refuse a reference's and a candidate's timesteps that are not the same.

    Raises:
        ComparisonRefused: says which steps one of them lacks.
    """
    if len(a) == len(b) and np.allclose(a, b, rtol=SAME_TIMESTEP, atol=0):
        return
    lacking = [
        f"the {role} has no step at {_listed(missing)}"
        for role, missing in (("candidate", a[~np.isin(a, b)]), ("reference", b[~np.isin(b, a)]))
        if len(missing)
    ]
    reason = " and ".join(lacking) or "the same ones are taken in another order"
    shifted = "; one recording is off by one step" if _shifted(a, b) else ""
    raise ComparisonRefused(
        f"the timesteps differ, {len(a)} against {len(b)}: {reason}{shifted}; "
        "generate both with one scheduler and num_inference_steps"
    )


def _shifted(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether one run is the other without its first or last step, or moved along by one."""
    return any(
        len(x) > 0 and np.array_equal(x, y)
        for x, y in (
            (a[1:], b),
            (a, b[1:]),
            (a[:-1], b),
            (a, b[:-1]),
            (a[1:], b[:-1]),
            (a[:-1], b[1:]),
        )
    )


def _listed(values: np.ndarray) -> str:
    return ", ".join(f"{value:g}" for value in values[:4]) + (", ..." if len(values) > 4 else "")


def _range(index: pd.Index) -> str:
    return f"{index.min()} to {index.max()}"
