"""How a picture or a video is drawn: steps, size, guidance, frames."""

from __future__ import annotations

import math
from typing import Any

from pydantic import Field, field_validator

from workbench.spec import PIXELS_PER_TOKEN, Spec


class Sampling(Spec):
    """How each picture is drawn; names are diffusers'. None takes the model's own default."""

    num_inference_steps: int = Field(20, ge=1)
    height: int | None = None
    width: int | None = None
    """Pixels, a multiple of 16; some models take multiples of 32 only."""
    true_cfg_scale: float | None = Field(None, gt=0)
    """Classifier-free guidance of Qwen-Image, with the negative prompt."""
    guidance_scale: float | None = Field(None, ge=0)
    """Distilled guidance of FLUX.1, classifier-free guidance of Wan."""
    negative_prompt: str | None = None
    num_frames: int | None = None
    """Frames of a video, 4k+1; None for images. Another number becomes the one that is drawn,
    with a warning."""
    fps: float | None = None
    """Frames a second of a video; part of what is asked, though no frame depends on it."""

    @field_validator("height", "width")
    @classmethod
    def _whole_tokens(cls, value: int | None) -> int | None:
        if value is None or (value >= PIXELS_PER_TOKEN and value % PIXELS_PER_TOKEN == 0):
            return value
        raise ValueError(
            f"pixels are a multiple of {PIXELS_PER_TOKEN}; "
            f"use {' or '.join(map(str, nearest_multiples(value, PIXELS_PER_TOKEN)))}"
        )

    @field_validator("num_frames", mode="before")
    @classmethod
    def _whole_frames(cls, value: Any) -> Any:
        given = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
        if given is None or (not isinstance(given, bool) and given == _whole(given) >= 1):
            return given
        raise ValueError("frames are a whole number, 1 or more; use 4k+1 of them, such as 49")

    @field_validator("fps")
    @classmethod
    def _finite_fps(cls, value: float | None) -> float | None:
        if value is None or (math.isfinite(value) and value > 0):
            return value
        raise ValueError("frames a second are a number above 0; use one such as 16 or 24")


def nearest_multiples(value: int, of: int) -> list[int]:
    """The multiples of a number on either side of a value, none below the number itself."""
    return sorted({max(value // of, 1) * of, max(-(-value // of), 1) * of})


def _whole(value: Any) -> int:
    """A number without its fraction; 0 for what is no number."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
