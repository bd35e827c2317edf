"""What a model draws of a size that is asked for: whole patches, whole latent frames."""

from __future__ import annotations

from pathlib import Path

from workbench.errors import SpecError
from workbench.sampling import frames_drawn, frames_note
from workbench.serve.plan_configs import pixels_of_a_patch, vae_of
from workbench.serve.plan_rules import frames_problem, size_problem
from workbench.specs import Sampling
from workbench.zoo.families import Family


def drawable(folder: Path, family: Family, sampling: Sampling) -> tuple[Sampling, str | None]:
    """The sampling with the number of frames that is really drawn, and what to say about it.

    Args:
        folder: Of the pipeline.
        family: Its family.
        sampling: What is asked for, the model's defaults filled in.

    Returns:
        The sampling, and a sentence that names asked and drawn frames where they differ.

    Raises:
        SpecError: frames of an image model, or a size that the engine would cut.
    """
    if problem := frames_problem(family, sampling):
        raise SpecError(problem)
    if not family.draws_videos:
        return sampling, None
    if problem := size_problem(sampling, pixels_of_a_patch(folder)):
        raise SpecError(problem)
    asked, every = sampling.num_frames, vae_of(folder / "vae").temporal
    if asked is None:
        return sampling, None
    return sampling.but(num_frames=frames_drawn(asked, every)), frames_note(asked, every)
