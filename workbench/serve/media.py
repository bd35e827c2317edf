"""The engine's output as pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from PIL import Image


def frames_of(first: Any) -> list[Image.Image]:
    """One RGB picture, or the frames of a video, of a pipeline's first output."""
    from PIL import Image

    if isinstance(first, list):
        return [frame.convert("RGB") for frame in first]
    if isinstance(first, Image.Image):
        return [first.convert("RGB")]
    pixels = np.asarray(first, dtype=np.float32)  # [1, frames, height, width, 3] or without the 1
    video = pixels.reshape(-1, *pixels.shape[-3:])
    return [Image.fromarray(frame) for frame in (video.clip(0, 1) * 255).round().astype(np.uint8)]
