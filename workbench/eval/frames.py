"""The frames of generations, read when they are needed and not kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from workbench.eval.metrics import Scores
from workbench.records import Generation

if TYPE_CHECKING:
    from PIL import Image


def frames_of(one: Generation) -> list[Image.Image]:
    """Its frames, lossless, read anew: 49 of 832 x 480 are 58 MB, too much to keep of each."""
    return replace(one).frames


def media_pairs(pairs: Iterable[tuple[Generation, Generation]]) -> Iterator[tuple[Any, Any]]:
    """What :func:`~workbench.eval.metrics.score_pairs` takes: two pictures, or two clips."""
    for pair in pairs:
        yield tuple(frames[0] if len(frames) == 1 else frames for frames in map(frames_of, pair))


def frame_table(scored: Scores, identical: bool) -> pd.DataFrame:
    """The metrics of each frame of a pair; of two pictures one row."""
    if scored.frames is not None:
        return scored.frames
    return pd.DataFrame([{"frame": 0, "identical": identical, **scored.values}])
