"""What a model draws of what is asked for: whole patches, whole latent frames, its own experts."""

from __future__ import annotations

from pathlib import Path

from workbench.errors import SpecError
from workbench.sampling import frames_drawn, frames_note, nearest_multiples
from workbench.specs import Sampling
from workbench.zoo.component_configs import pixels_of_a_patch, vae_of
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


def frames_problem(family: Family, sampling: Sampling) -> str | None:
    """Images have no frames."""
    frames = sampling.num_frames
    if frames is None or family.draws_videos:
        return None
    return f"num_frames={frames}: {family.name} draws images; leave num_frames out"


def size_problem(sampling: Sampling, multiple: int) -> str | None:
    """The engine rounds a size down to whole patches; models/wan2_2/pipeline_wan2_2.py:705.

    Args:
        sampling: What is asked for.
        multiple: Pixels of a patch of the transformer.
    """
    for name in ("height", "width"):
        asked = getattr(sampling, name)
        if asked is not None and asked % multiple:
            nearest = " or ".join(map(str, nearest_multiples(asked, multiple)))
            return (
                f"{name}={asked}: this model draws multiples of {multiple} pixels, and the engine "
                f"would draw {asked // multiple * multiple}; use {nearest}"
            )
    return None


def second_problem(folder: Path, family: Family, sampling: Sampling) -> str | None:
    """Only the second of two transformers has guidance of its own.

    models/wan2_2/pipeline_wan2_2.py:597; others would ignore it without a word.

    Args:
        folder: Of the pipeline.
        family: Its family.
        sampling: What is asked for.
    """
    found = [name for name in family.transformers if (folder / name / "config.json").is_file()]
    if sampling.guidance_scale_2 is None or len(found) > 1:
        return None
    return (
        f"guidance_scale_2={sampling.guidance_scale_2} is the guidance of a second transformer, as "
        f"Wan2.2 A14B has one; {folder.name} is a {family.name} model with one alone, so leave it "
        f"out and set {family.guidance}"
    )
