"""Teacher-forced error: what each step adds by itself, without what earlier steps led to."""

from __future__ import annotations

import numpy as np
import pandas as pd

from workbench.errors import ComparisonRefused
from workbench.eval.trajectory import distances, refuse_other_timesteps
from workbench.followed import Followed


def velocity_errors(reference: Followed, candidate: Followed) -> pd.DataFrame:
    """Distance of the predicted velocities at the same latents and timesteps.

    Both models are led along one set's trajectories (:func:`workbench.follow`), so that each
    prediction starts from equal latents: what differs is this step's own error. For flow matching
    the prediction is the velocity ``dx/dt`` (Lipman et al. 2023, https://arxiv.org/abs/2210.02747);
    it is taken after classifier-free guidance.

    Args:
        reference: Usually the 16-bit model, along its own set.
        candidate: Another precision along the same set.

    Returns:
        One row a pair and step: precision, prompt, seed, step (from 1), timestep, relative_l2
        (||v - v'|| / ||v||), cosine, signal_to_error_db.

    Raises:
        ComparisonRefused: they follow other sets, or share no pair.
    """
    if reference.spec.along != candidate.spec.along:
        raise ComparisonRefused(
            f"the reference follows {reference.spec.along} and the candidate "
            f"{candidate.spec.along}; follow one set with both"
        )
    partners = {(item.prompt, item.seed): item for item in candidate}
    rows = [
        _rows(item.arrays, partners[item.prompt, item.seed].arrays).assign(
            precision=candidate.precision, prompt=item.prompt, seed=item.seed
        )
        for item in reference
        if (item.prompt, item.seed) in partners
    ]
    if not rows:
        raise ComparisonRefused(
            "the two follow no pair in common; give both the same number of pairs"
        )
    table = pd.concat(rows, ignore_index=True)
    names = ["precision", "prompt", "seed"]
    return table[[*names, *table.columns.drop(names)]]


def _rows(reference: dict[str, np.ndarray], candidate: dict[str, np.ndarray]) -> pd.DataFrame:
    refuse_other_timesteps(reference["timesteps"], candidate["timesteps"])
    found = distances(reference["velocities"], candidate["velocities"])
    del found["share_of_final"]  # nothing accumulates here
    steps = np.arange(1, len(reference["timesteps"]) + 1)
    return pd.DataFrame({"step": steps, "timestep": reference["timesteps"], **found})
