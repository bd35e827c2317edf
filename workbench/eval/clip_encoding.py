"""Frames of clips as text for a page, as good as a budget of bytes allows."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from PIL import Image

from workbench.errors import ComparisonRefused

BUDGET = 4_500_000  # characters of one set of clips: three of them and plotly.js stay below 20 MB
SAMPLES = 3  # frames of a clip that are tried before all are encoded
Frames = Sequence[Image.Image]


class Rung(NamedTuple):
    """One way to encode."""

    scale: float
    """Of the sides."""
    quality: int | None
    """Of lossy WebP, 0 to 100; None is lossless."""

    @property
    def how(self) -> str:
        """What the page says of it."""
        if self.quality is None:
            return "shown lossless"
        smaller = f" at {self.scale:.0%} of its size" if self.scale < 1 else ""
        return (
            f"shown compressed (WebP, quality {self.quality}{smaller}); metrics and differences "
            "are of the lossless frames"
        )


LADDER = (
    Rung(1, None),
    *(
        Rung(scale, quality)
        for scale, qualities in (
            (1, (90, 80, 65)),
            (0.75, (80, 65)),
            (0.5, (80, 65, 50)),
            (0.35, (65, 45)),
            (0.25, (60, 35)),
            (0.15, (50, 30)),
        )
        for quality in qualities
    ),
)
"""From the best; the first that fits is taken."""


@dataclass(frozen=True)
class Encoded:
    """Clips of one length as base64 of WebP."""

    clips: Mapping[str, list[str]] = field(repr=False)
    """Label -> frames; the first label is the reference."""
    differences: Mapping[str, list[str]] = field(repr=False)
    """Of each candidate, from its lossless frames, by :func:`companded`; empty where the clips are
    lossless, since a page can subtract those itself."""
    size: tuple[int, int]
    """Width and height of what is shown, pixels."""
    how: str
    """A line for the page."""

    @property
    def characters(self) -> int:
        """Length of all of it."""
        every = (*self.clips.values(), *self.differences.values())
        return sum(len(one) for frames in every for one in frames)


def encoded(clips: Mapping[str, Frames], budget: int = BUDGET) -> Encoded:
    """The best encoding of these clips that fits.

    Args:
        clips: label -> RGB frames of one size and number; the first is the reference.
        budget: characters of base64, all clips and differences together.

    Raises:
        ComparisonRefused: clips of unequal sizes or lengths; nothing fits.
    """
    size = _refuse_unlike(clips)
    for rung in LADDER:
        if _estimate(clips, rung) > budget:
            continue
        found = _encoded(clips, rung, size)
        if found.characters <= budget:
            return found
    number = len(next(iter(clips.values())))
    raise ComparisonRefused(
        f"{len(clips)} clips of {number} frames do not fit into budget={budget} characters, even "
        f"at {LADDER[-1].scale:.0%} of their size; raise it, or show fewer candidates"
    )


def companded(reference: Image.Image, candidate: Image.Image) -> Image.Image:
    """The absolute difference d of two RGB frames as 255 sqrt(d / 255).

    So that small differences survive lossy encoding; 255 (v / 255)^2 gives d back.
    """
    a, b = (np.asarray(one.convert("RGB"), dtype=np.int16) for one in (reference, candidate))
    return Image.fromarray(np.rint(np.sqrt(np.abs(a - b) * 255.0)).astype(np.uint8))


def _refuse_unlike(clips: Mapping[str, Frames]) -> tuple[int, int]:
    kinds = {(len(frames), *{frame.size for frame in frames}) for frames in clips.values()}
    if len(kinds) != 1 or len(next(iter(kinds))) != 2:
        said = "; ".join(
            f"{label}: {len(frames)} of {sorted({frame.size for frame in frames})} pixels"
            for label, frames in clips.items()
        )
        raise ComparisonRefused(
            f"players need clips of one length and one size, got {said}; generate all with one "
            "num_frames, height and width"
        )
    return next(iter(kinds))[1]


def _differences(clips: Mapping[str, Frames], rung: Rung) -> Iterator[tuple[str, Frames]]:
    if rung.quality is None:
        return
    (_, reference), *others = clips.items()
    for label, frames in others:
        yield label, [companded(*pair) for pair in zip(reference, frames, strict=True)]


def _estimate(clips: Mapping[str, Frames], rung: Rung) -> float:
    """Characters of all, from a few frames of the first and the last clip."""
    number = len(next(iter(clips.values())))
    tried = sorted({round(at) for at in np.linspace(0, number - 1, SAMPLES)})
    ends = list(clips.items())[:: max(1, len(clips) - 1)]
    few = {label: [frames[i] for i in tried] for label, frames in ends}
    pictures = sum(len(_webp(frame, rung)) for frames in few.values() for frame in frames)
    apart = sum(len(_webp(frame, rung)) for _, one in _differences(few, rung) for frame in one)
    per_frame = number / len(tried)
    return per_frame * (pictures / len(few) * len(clips) + apart * (len(clips) - 1))


def _encoded(clips: Mapping[str, Frames], rung: Rung, size: tuple[int, int]) -> Encoded:
    return Encoded(
        clips={name: [_webp(frame, rung) for frame in one] for name, one in clips.items()},
        differences={
            name: [_webp(frame, rung) for frame in one] for name, one in _differences(clips, rung)
        },
        size=_scaled(size, rung),
        how=rung.how,
    )


def _scaled(size: tuple[int, int], rung: Rung) -> tuple[int, int]:
    return tuple(max(1, round(side * rung.scale)) for side in size)


def _webp(frame: Image.Image, rung: Rung) -> str:
    shown = frame.convert("RGB")
    if rung.scale < 1:
        shown = shown.resize(_scaled(frame.size, rung), Image.Resampling.BOX)
    stream = io.BytesIO()
    lossless = rung.quality is None
    shown.save(stream, "webp", lossless=lossless, quality=40 if lossless else rung.quality)
    return base64.b64encode(stream.getvalue()).decode()
