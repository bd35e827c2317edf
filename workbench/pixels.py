"""Pixels as files, and their digest."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL import Image


def png(picture: Image.Image) -> bytes:
    """Lossless."""
    buffer = BytesIO()
    picture.save(buffer, format="PNG")
    return buffer.getvalue()


def pixel_digest(frames: Sequence[Image.Image]) -> str:
    """SHA-256 over the shape and the bytes of each frame's pixels."""
    digest = hashlib.sha256()
    for frame in frames:
        pixels = np.asarray(frame)
        digest.update(repr(pixels.shape).encode() + pixels.tobytes())
    return digest.hexdigest()
