"""One row of pixels over time, clip below clip: an HTML fragment, whole in itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

import numpy as np
from PIL import Image

from workbench.errors import ComparisonRefused
from workbench.eval.media import GAIN, Html, data_uri, difference, filled, image_tag

WIDTH = 480  # of a slice on the page, pixels
HEIGHT = 120  # of it at least, where clips are short
MARK = (255, 0, 160)


def time_slices(
    clips: Mapping[str, Sequence[Image.Image]], *, row: int | None = None, caption: str = ""
) -> Html:
    """The x-t slice of each clip, time downwards, with its difference from the reference's.

    What stands still is a vertical line, what moves evenly a slanted one; a jump is a step, flicker
    is stripes across.

    Args:
        clips: label -> RGB frames, all of one size and number; the first is the reference.
        row: of pixels, from the top; None takes :func:`liveliest_row` of the reference.
        caption: a line above.

    Raises:
        ComparisonRefused: clips of unequal sizes or lengths, or of one frame; a row outside.
    """
    stacks = {name: _stacked(name, frames) for name, frames in clips.items()}
    reference = next(iter(stacks.values()))
    if unlike := {name: one.shape for name, one in stacks.items() if one.shape != reference.shape}:
        raise ComparisonRefused(
            f"slices need clips of one shape, {unlike} against {reference.shape}; generate all "
            "with one num_frames, height and width"
        )
    number, height = reference.shape[:2]
    at = liveliest_row(reference) if row is None else row
    if not 0 <= at < height:
        raise ComparisonRefused(f"row={row!r} is outside the frames; it is from 0 to {height - 1}")
    slices = {name: Image.fromarray(stack[:, at]) for name, stack in stacks.items()}
    (first, own), *others = slices.items()
    figures = [_figure(own, f"reference {first}"), _marked(reference[0], at)]
    for name, one in others:
        figures += [
            _figure(one, name),
            _figure(difference(own, one), f"difference of {name} x {GAIN}"),
        ]
    chosen = " where the reference changes most from frame to frame" if row is None else ""
    return filled(
        "time_slices.html",
        caption=escape(caption),
        about=f"row {at} of {height} pixels,{chosen or ' as asked for'}; time runs downwards, "
        f"{number} frames",
        figures="\n".join(figures),
        width=WIDTH,
        height=max(HEIGHT, min(number * 4, 2 * HEIGHT)),
    )


def liveliest_row(clip: np.ndarray) -> int:
    """The row of pixels whose values change most from frame to frame, on average.

    Args:
        clip: uint8 [frames, height, width, channels], 2 frames or more.
    """
    changes = [np.abs(b.astype(np.int16) - a).mean(axis=(1, 2)) for a, b in pairwise(clip)]
    return int(np.mean(changes, axis=0).argmax())


def _stacked(name: str, frames: Sequence[Image.Image]) -> np.ndarray:
    if len(frames) < 2 or len({frame.size for frame in frames}) > 1:
        raise ComparisonRefused(
            f"a slice of time needs at least 2 frames of one size, and {name} has {len(frames)} of "
            f"{sorted({frame.size for frame in frames})}; generate a video (num_frames=9 or more)"
        )
    return np.stack([np.asarray(frame.convert("RGB")) for frame in frames])


def _figure(picture: Image.Image, name: str) -> str:
    tag = image_tag(data_uri(picture), name, ' class="slice"')
    return f"<figure>{tag}<figcaption>{escape(name)}</figcaption></figure>"


def _marked(frame: np.ndarray, row: int) -> str:
    """Frame 0, the row that is cut through drawn over it."""
    shown = frame.copy()
    shown[row] = MARK
    tag = image_tag(data_uri(Image.fromarray(shown), lossy=max(shown.shape) > WIDTH), "frame 0")
    return f"<figure>{tag}<figcaption>frame 0 and the row</figcaption></figure>"
