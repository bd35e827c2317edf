"""Which models draw from first frames, and the first frame of each prompt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workbench.errors import SpecError
from workbench.first_frames import InputImage, fitted, opened, warn_of_scaled
from workbench.records import Generation
from workbench.sampling import check_image_count
from workbench.specs import Sampling
from workbench.zoo.component_configs import pixels_of_a_patch
from workbench.zoo.families import Family, image_input_of

_RGB = 3  # axes of one array


def input_images(
    images: Any, prompts: Sequence[str], folder: Path, family: Family, sampling: Sampling
) -> dict[str, InputImage]:
    """The first frame of each prompt; none where none is given and none is needed.

    Args:
        images: One for all prompts or one for each: a path, a Pillow image, uint8 [height, width,
            3], or a Generation, whose first frame counts.
        prompts: Distinct.
        folder: Of the pipeline.
        family: Its family.
        sampling: Height and width in pixels that are drawn.

    Raises:
        SpecError: images where the model would ignore them, none where it needs them, a wrong
            number of them, or one that is no picture or of another aspect ratio.
    """
    _check_wanted(images, folder, family)
    if images is None:
        return {}
    given = _each(images, len(prompts))
    multiple = pixels_of_a_patch(folder)
    size = (sampling.width or 0, sampling.height or 0)
    found = [fitted(opened(one), size, multiple) for one in given]
    warn_of_scaled(found, stacklevel=5)
    return dict(zip(prompts, found if len(found) > 1 else found * len(prompts), strict=True))


def _check_wanted(images: Any, folder: Path, family: Family) -> None:
    if images is None:
        if family.image_input == "needed":
            raise SpecError(
                f"images=None: {folder.name} is a {family.name} model, which draws from a first "
                "frame; give images=, one for all prompts or one for each"
            )
        return
    if image_input_of(folder) == "none":
        # models/wan2_2/pipeline_wan2_2.py:850 leaves it out without a word
        raise SpecError(
            f"images=...: {folder.name} is a {family.name} model that draws from prompts alone and "
            "would ignore them; leave images out, or take a TI2V or I2V model"
        )


def _each(images: Any, prompts: int) -> list[Any]:
    one = isinstance(images, (str, Path, Generation)) or hasattr(images, "convert")
    if one or (isinstance(images, np.ndarray) and images.ndim == _RGB):
        return [images]
    given = list(images) if isinstance(images, Iterable) else [images]
    try:
        check_image_count(len(given), prompts)
    except ValueError as error:
        raise SpecError(str(error)) from None
    return given
