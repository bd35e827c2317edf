"""First frames that videos begin with: what a user gives, as RGB pixels at the size that is drawn.

No silent resize: what would change the aspect ratio is refused, what is scaled is said and kept in
the record. Alpha is refused unless opaque, since nobody but the user knows the background.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from math import log, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench import store
from workbench.errors import SpecError
from workbench.pixels import pixel_digest, png
from workbench.records import INPUTS, Generation

if TYPE_CHECKING:
    from PIL import Image

_EIGHT_BITS = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr")  # Pillow's names
_RGB = 3
_OPAQUE = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class InputImage:
    """The first frame of one prompt."""

    picture: Image.Image
    """RGB, at the size that is drawn."""
    sha256: str
    """Of its pixels, as of a generation's."""
    given: tuple[int, int]
    """Width and height of what the user gave."""

    @property
    def record(self) -> dict[str, Any]:
        """For the manifest."""
        width, height = self.picture.size
        scaled = "LANCZOS" if self.given != (width, height) else None
        sizes = {"given_width": self.given[0], "given_height": self.given[1]}
        return {"sha256": self.sha256, **sizes, "width": width, "height": height, "scaled": scaled}

    def save(self, folder: Path, index: int) -> None:
        """Write the picture lossless beside what is drawn from it."""
        file = folder / INPUTS / f"{index:04d}.png"
        store.make_folder(file.parent)
        store.write_bytes(file, png(self.picture))


def opened(image: Any) -> Image.Image:
    """RGB pixels of a path, a Pillow image, uint8 [height, width, 3], or a Generation.

    Raises:
        SpecError: no picture of 8 bits, or one that is transparent in places.
    """
    from PIL import Image

    if isinstance(image, Generation):
        return image.image
    if isinstance(image, np.ndarray):
        if image.dtype != np.uint8 or image.ndim != _RGB or image.shape[-1] != _RGB:
            raise SpecError(
                f"an image of {image.dtype} {list(image.shape)}: give uint8 [height, width, 3]"
            )
        return Image.fromarray(image)
    if isinstance(image, (str, Path)):
        return decoded(read(image), str(image))
    if isinstance(image, Image.Image):
        return _rgb(image, "the image")
    raise SpecError(
        f"an image of type {type(image).__name__}: give a path, a Pillow image, uint8 [height, "
        "width, 3] or a Generation"
    )


def read(file: str | Path) -> bytes:
    """What a file of a picture holds.

    Raises:
        SpecError: it cannot be read.
    """
    if not str(file).strip():
        raise SpecError(
            f"{str(file)!r} names no picture; give a PNG, JPEG or WebP file, or leave images out"
        )
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise _unreadable(str(file), error) from None


def decoded(content: bytes, name: str) -> Image.Image:
    """RGB pixels of a picture file, turned upright.

    Args:
        content: Of the file.
        name: Of the file, for messages.

    Raises:
        SpecError: no picture of 8 bits, one too large to decode, or transparent in places.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(BytesIO(content)) as picture:
            return _rgb(ImageOps.exif_transpose(picture), name)
    except (OSError, Image.DecompressionBombError) as error:
        raise _unreadable(name, error) from None


def _unreadable(name: str, error: Exception) -> SpecError:
    return SpecError(
        f"{name} cannot be read as a picture ({error}); give a PNG, JPEG or WebP file of a size "
        "that a video has"
    )


def _rgb(picture: Image.Image, name: str) -> Image.Image:
    if picture.mode not in _EIGHT_BITS:
        raise SpecError(
            f"{name} has mode {picture.mode!r}, whose values are no 8-bit colours; convert it to "
            "RGB first"
        )
    if picture.has_transparency_data:
        alpha = picture.convert("RGBA").getchannel("A")
        if alpha.getextrema()[0] < _OPAQUE:
            raise SpecError(
                f"{name} is transparent in places, and a video has no background to put there; "
                "paste it on one first"
            )
    return picture.convert("RGB")


def fitted(picture: Image.Image, asked: tuple[int, int], multiple: int) -> InputImage:
    """A picture at the size that is drawn, scaled where the aspect ratio allows.

    Args:
        picture: RGB.
        asked: Width and height that are drawn, in pixels.
        multiple: Of which both are multiples.

    Raises:
        SpecError: another aspect ratio, by more than rounding to the multiple.
    """
    from PIL import Image

    given = picture.size
    if given == asked:
        return InputImage(picture=picture, sha256=pixel_digest([picture]), given=given)
    if not _alike(given, asked, multiple):
        width, height = _nearest(given, asked, multiple)
        raise SpecError(
            f"an image of {given[0]} x {given[1]} pixels (width x height) does not have the aspect "
            f"ratio of width={asked[0]}, height={asked[1]}; draw width={width}, height={height}, "
            "or crop the image"
        )
    scaled = picture.resize(asked, Image.Resampling.LANCZOS)
    return InputImage(picture=scaled, sha256=pixel_digest([scaled]), given=given)


def warn_of_scaled(found: Iterable[InputImage], *, stacklevel: int) -> None:
    """Say, once for each size, what was given and what is drawn.

    Args:
        found: All first frames of a request.
        stacklevel: Of the caller's caller, as :func:`warnings.warn` counts from here.
    """
    for given, drawn in dict.fromkeys((one.given, one.picture.size) for one in found):
        if given != drawn:
            warnings.warn(
                f"an image of {given[0]} x {given[1]} pixels (width x height) is scaled to "
                f"{drawn[0]} x {drawn[1]}, the size of the video (LANCZOS)",
                stacklevel=stacklevel,
            )


def _alike(given: tuple[int, int], asked: tuple[int, int], multiple: int) -> bool:
    """Whether one side follows from the other by the image's aspect ratio, up to whole patches."""
    ratio = given[1] / given[0]
    return asked[1] == _whole(asked[0] * ratio, multiple) or asked[0] == _whole(
        asked[1] / ratio, multiple
    )


def _nearest(given: tuple[int, int], asked: tuple[int, int], multiple: int) -> tuple[int, int]:
    """A size of the image's aspect ratio with about as many pixels as were asked for."""
    ratio = given[1] / given[0]
    middle = _whole(sqrt(asked[0] * asked[1] / ratio), multiple)
    widths = [w for w in (middle, middle - multiple, middle + multiple) if w > 0]
    sizes = [(width, _whole(width * ratio, multiple)) for width in widths]
    return min(sizes, key=lambda size: abs(log(size[1] / size[0] / ratio)))


def _whole(side: float, multiple: int) -> int:
    return max(round(side / multiple), 1) * multiple
