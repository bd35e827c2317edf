"""What the picture metrics take: two pictures of any usual kind, made alike once, here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from PIL import Image

from workbench.errors import ComparisonRefused
from workbench.eval.picture_ranges import Ranged, ranged

Fit = Literal["crop", "resize"]
CHANNELS = (1, 3, 4)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Two pictures of one shape and one dtype. Made by :func:`prepare`."""

    reference: np.ndarray
    """[height, width, 1 or 3], contiguous: uint8 from 0 to 255, or float64 from 0 to 1."""
    candidate: np.ndarray
    notes: tuple[str, ...] = ()
    """What was changed to make them alike, a sentence each."""
    clamped: int = 0
    """Values of both pictures that lay outside the range and were set to its end."""

    @property
    def data_range(self) -> float:
        """The value of white: 255 or 1.0."""
        return 255.0 if self.reference.dtype == np.uint8 else 1.0


def prepare(
    reference: Any,
    candidate: Any,
    *,
    value_range: tuple[float, float] | None = None,
    fit: Fit | None = None,
) -> Prepared:
    """Make two pictures alike, or refuse; nothing about them is guessed.

    Two uint8 pictures stay uint8; else both become float64. An alpha channel is laid on white, and
    gray beside RGB becomes RGB. What was done is said in ``notes``.

    Args:
        reference: Pillow image, array or CPU tensor: [h, w], [h, w, c], [c, h, w], [1, h, w, c] or
            [1, c, h, w] with c = 1, 3 or 4. uint8 is from 0 to 255. Floats are from 0 to 1; up to
            1 % of them may lie outside, by up to 0.5, and are clamped.
        candidate: the same, in any other of these layouts and types.
        value_range: black and white of what is not uint8, such as (-1, 1) or (0, 255); values
            outside are clamped.
        fit: for unequal sizes, ``"crop"`` (the centre of both) or ``"resize"`` (the candidate, to
            the size of the reference, Lanczos).

    Raises:
        ComparisonRefused: no such picture; a layout or a range that can be read in two ways; values
            that are not finite; unequal sizes without ``fit``.
    """
    if fit not in (None, "crop", "resize"):
        raise ComparisonRefused(f"fit={fit!r} is unknown; pass 'crop', 'resize' or None")
    a = _one(reference, "reference", value_range)
    b = _one(candidate, "candidate", value_range)
    notes = [*a.notes, *b.notes]
    pixels = _one_dtype(a.pixels, b.pixels)
    pixels = _one_number_of_channels(*pixels, notes)
    pixels = _one_size(*pixels, fit, notes)
    return Prepared(*map(np.ascontiguousarray, pixels), tuple(notes), a.clamped + b.clamped)


def rgb(picture: np.ndarray) -> np.ndarray:
    """[h, w, 3] of [h, w, 1 or 3]; gray becomes three equal channels."""
    return np.repeat(picture, 3, axis=2) if picture.shape[2] == 1 else picture


def refuse_smaller(picture: np.ndarray, side: int, metric: str) -> None:
    """Refuse a picture with fewer than ``side`` pixels in height or width.

    Raises:
        ComparisonRefused: says what the metric needs and what it got.
    """
    height, width = picture.shape[:2]
    if min(height, width) < side:
        raise ComparisonRefused(
            f"{metric} needs at least {side} x {side} pixels, got {height} x {width}; draw larger "
            "pictures"
        )


def _one(picture: Any, role: str, value_range: tuple[float, float] | None) -> Ranged:
    found = ranged(_rows_first(_array(picture, role), role), role, value_range)
    if found.pixels.shape[2] < 4:
        return found
    note = f"alpha of the {role} laid on white"
    return Ranged(_on_white(found.pixels), (*found.notes, note), found.clamped)


def _array(picture: Any, role: str) -> np.ndarray:
    if isinstance(picture, Image.Image) and picture.mode in ("1", "P", "PA", "LA", "CMYK", "YCbCr"):
        clear = picture.mode in ("PA", "LA") or "transparency" in picture.info
        picture = picture.convert("RGBA" if clear else "RGB")
    try:
        array = np.asarray(picture)
    except (TypeError, RuntimeError, ValueError) as error:
        raise ComparisonRefused(
            f"the {role} is a {type(picture).__name__} that NumPy cannot read ({error}); pass "
            "tensor.detach().float().cpu()"
        ) from error
    if array.dtype.kind not in "biuf":
        raise ComparisonRefused(
            f"the {role} is a {type(picture).__name__} of {array.dtype}; pass a Pillow image, an "
            "array or a tensor of numbers"
        )
    return array


def _rows_first(array: np.ndarray, role: str) -> np.ndarray:
    """[h, w, c] of any layout that can be read in one way."""
    shape = array.shape
    if array.ndim == 4 and shape[0] == 1:
        array = array[0]
    if array.ndim == 2 and array.size:
        return array[..., None]
    if array.ndim != 3 or not array.size:
        wrong = "a batch, and metrics take one picture" if array.ndim == 4 else "no picture"
        raise ComparisonRefused(f"the {role} has shape {shape}, which is {wrong}; pass [h, w, c]")
    first, last = array.shape[0] in CHANNELS, array.shape[2] in CHANNELS
    if first and last:
        raise ComparisonRefused(
            f"the {role} has shape {shape}, which reads as [h, w, c] and as [c, h, w]; pass "
            "[h, w, c] with more than 4 rows"
        )
    if not first and not last:
        raise ComparisonRefused(
            f"the {role} has shape {shape}, and pictures have 1, 3 or 4 channels; pass [h, w, c]"
        )
    return array if last else np.moveaxis(array, 0, 2)


def _on_white(pixels: np.ndarray) -> np.ndarray:
    colour, alpha = pixels[..., :3], pixels[..., 3:]
    if pixels.dtype != np.uint8:
        return colour * alpha + (1 - alpha)
    alpha = alpha.astype(np.uint32)
    return ((colour * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)


def _one_dtype(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if a.dtype == b.dtype:
        return a, b
    return tuple(p / 255.0 if p.dtype == np.uint8 else p for p in (a, b))


def _one_number_of_channels(
    a: np.ndarray, b: np.ndarray, notes: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    if a.shape[2] == b.shape[2]:
        return a, b
    notes.append(f"gray {'reference' if a.shape[2] == 1 else 'candidate'} expanded to RGB")
    return rgb(a), rgb(b)


def _one_size(
    a: np.ndarray, b: np.ndarray, fit: Fit | None, notes: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    if a.shape == b.shape:
        return a, b
    sizes = [f"{p.shape[0]} x {p.shape[1]}" for p in (a, b)]
    if fit is None:
        raise ComparisonRefused(
            f"the reference has {sizes[0]} pixels and the candidate {sizes[1]}; generate both at "
            "one height and width, or pass fit='crop' or fit='resize'"
        )
    if fit == "resize":
        notes.append(f"candidate resized from {sizes[1]} to {sizes[0]} (Lanczos)")
        return a, _resized(b, a.shape[:2])
    common = np.minimum(a.shape[:2], b.shape[:2])
    notes.append(f"{sizes[0]} and {sizes[1]} cropped to the middle {common[0]} x {common[1]}")
    return _middle(a, common), _middle(b, common)


def _middle(picture: np.ndarray, size: np.ndarray) -> np.ndarray:
    top, left = (np.array(picture.shape[:2]) - size) // 2
    return picture[top : top + size[0], left : left + size[1]]


def _resized(picture: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """Channel by channel; floats in float32, overshoot clipped."""
    height, width = size
    planes = [picture[..., i] for i in range(picture.shape[2])]
    if picture.dtype != np.uint8:
        planes = [plane.astype(np.float32) for plane in planes]
    lanczos = Image.Resampling.LANCZOS
    planes = [Image.fromarray(p).resize((width, height), lanczos) for p in planes]
    stacked = np.stack([np.asarray(plane) for plane in planes], axis=2)
    return stacked if picture.dtype == np.uint8 else np.clip(stacked.astype(np.float64), 0, 1)
