"""A sampling made whole: the model's own defaults fill what was left open."""

from __future__ import annotations

from pathlib import Path

from workbench import zoo
from workbench.specs import Sampling


def full_sampling(folder: Path, sampling: Sampling | None) -> Sampling:
    """What is drawn with; fields that neither the request nor the model sets stay None."""
    given = (sampling or Sampling()).model_dump(exclude_none=True)
    return Sampling(**{**zoo.default_sampling(folder), **given})
