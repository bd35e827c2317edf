"""What the metrics over time take: two clips of any usual kind, made alike once, here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from PIL import Image

from workbench.errors import ComparisonRefused
from workbench.eval.pictures import Fit, Prepared, prepare

Align = Literal["shorter"]


@dataclass(frozen=True, eq=False)
class Clips:
    """Two clips of one shape and one dtype. Made by :func:`prepare_clips`."""

    reference: np.ndarray
    """[frames, height, width, 1 or 3]: uint8 from 0 to 255, or float64 from 0 to 1."""
    candidate: np.ndarray
    notes: tuple[str, ...] = ()
    """What was changed to make them alike, a sentence each."""
    clamped: int = 0
    """Values of both clips that lay outside the range and were set to its end."""

    @property
    def data_range(self) -> float:
        """The value of white: 255 or 1.0."""
        return 255.0 if self.reference.dtype == np.uint8 else 1.0


def prepare_clips(
    reference: Any,
    candidate: Any,
    *,
    align: Align | None = None,
    value_range: tuple[float, float] | None = None,
    fit: Fit | None = None,
    least: int = 1,
) -> Clips:
    """Make two clips alike, or refuse; nothing about them is guessed.

    Each pair of frames goes through :func:`~workbench.eval.pictures.prepare`.

    Args:
        reference: frames in their order, such as ``generation.frames``: a list of pictures, or an
            array or CPU tensor [frames, h, w, c] or [frames, c, h, w].
        candidate: the same, in any other of these layouts and types.
        align: ``"shorter"`` drops the last frames of the longer clip, and says so in ``notes``.
        value_range: black and white of what is not uint8.
        fit: for unequal sizes, ``"crop"`` or ``"resize"``.
        least: frames that the metric needs.

    Raises:
        ComparisonRefused: no clip; unequal numbers of frames without ``align``; fewer than
            ``least``; frames that cannot be compared, or are not all alike in one clip, by number.
    """
    if align not in (None, "shorter"):
        raise ComparisonRefused(f"align={align!r} is unknown; pass 'shorter' or None")
    a, b = _frames(reference, "reference"), _frames(candidate, "candidate")
    number, notes = _common(len(a), len(b), align)
    if number < least:
        raise ComparisonRefused(
            f"metrics over time need at least {least} frames, got {number}; generate a video "
            "(num_frames=9 or more), or compare pictures with score()"
        )
    options = {"value_range": value_range, "fit": fit}
    pairs = [_pair(i, a[i], b[i], options) for i in range(number)]
    for role in ("reference", "candidate"):
        _refuse_unlike([getattr(pair, role) for pair in pairs], role)
    return Clips(
        reference=np.stack([pair.reference for pair in pairs]),
        candidate=np.stack([pair.candidate for pair in pairs]),
        notes=(*notes, *dict.fromkeys(note for pair in pairs for note in pair.notes)),
        clamped=sum(pair.clamped for pair in pairs),
    )


def is_clip(media: Any) -> bool:
    """Whether it is frames in their order, and not one picture.

    Args:
        media: a list or tuple of pictures, or an array or tensor [frames, ...] of 2 frames or more;
            anything else is left to :func:`~workbench.eval.pictures.prepare`.
    """
    if isinstance(media, list | tuple):
        return bool(media) and all(_is_picture(one) for one in media)
    return getattr(media, "ndim", 0) == 4 and len(media) > 1


def _is_picture(one: Any) -> bool:
    return isinstance(one, Image.Image) or getattr(one, "ndim", 0) >= 2


def _frames(clip: Any, role: str) -> list[Any]:
    dimensions = getattr(clip, "ndim", 4)
    if dimensions != 4 or isinstance(clip, Image.Image | str | bytes | dict):
        what = f"shape {tuple(clip.shape)}" if dimensions != 4 else f"type {type(clip).__name__}"
        raise ComparisonRefused(
            f"the {role} has {what}, which is no clip; pass a list of frames or an array "
            "[frames, h, w, c]"
        )
    try:
        return list(clip)
    except TypeError as error:
        raise ComparisonRefused(
            f"the {role} is a {type(clip).__name__}, which holds no frames; pass a list of them, "
            "such as generation.frames"
        ) from error


def _common(reference: int, candidate: int, align: Align | None) -> tuple[int, tuple[str, ...]]:
    if reference == candidate:
        return reference, ()
    if align is None:
        raise ComparisonRefused(
            f"the reference has {_counted(reference)} and the candidate {candidate}; generate both "
            "with one num_frames, or pass align='shorter' to drop the last frames of the longer"
        )
    number = min(reference, candidate)
    longer = "reference" if reference > candidate else "candidate"
    return number, (f"{longer} cut from {max(reference, candidate)} to {_counted(number)}",)


def _counted(number: int) -> str:
    return "1 frame" if number == 1 else f"{number} frames"


def _pair(number: int, reference: Any, candidate: Any, options: dict[str, Any]) -> Prepared:
    try:
        return prepare(reference, candidate, **options)
    except ComparisonRefused as error:
        raise ComparisonRefused(f"frame {number}: {error}") from error


def _refuse_unlike(frames: list[np.ndarray], role: str) -> None:
    first = frames[0]
    for number, frame in enumerate(frames):
        if (frame.shape, frame.dtype) != (first.shape, first.dtype):
            raise ComparisonRefused(
                f"frame {number} of the {role} is {frame.dtype} {frame.shape} and frame 0 is "
                f"{first.dtype} {first.shape}; pass frames of one size and one type"
            )
