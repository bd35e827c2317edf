"""A sampling made whole: the model's own defaults fill what was left open."""

from __future__ import annotations

from pathlib import Path

from workbench import zoo
from workbench.errors import SpecError
from workbench.specs import Sampling


def full_sampling(folder: Path, sampling: Sampling | None) -> Sampling:
    """What is drawn with; fields that neither the request nor the model sets stay None.

    Raises:
        SpecError: a sampling that is none.
        ModelNotFound: the model's own defaults are broken.
    """
    if not isinstance(sampling, Sampling | None):
        raise SpecError(
            f"sampling={sampling!r} is a {type(sampling).__name__}; give workbench.Sampling("
            "height=512, ...), or None for the model's defaults"
        )
    given = (sampling or Sampling()).model_dump(exclude_none=True)
    return Sampling(**{**zoo.default_sampling(folder), **given})
