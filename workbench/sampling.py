"""How a picture or a video is drawn: steps, size, guidance, frames."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, field_validator

from workbench.spec import PIXELS_PER_TOKEN, Spec

VAE_FRAMES = 4
"""Frames to one latent frame, of the VAEs of the families that draw videos."""

SLOWEST, FASTEST = 0.001, 1000.0
"""Frames a second that an MP4 file holds: its clock has 1000 ticks, and above it frames are lost;
below 0.0001 the encoder says 24 instead."""
_RATES = (
    f"frames a second are a number above 0, from {SLOWEST:g} to {FASTEST:g}; "
    "use one such as 16 or 24"
)


class Sampling(Spec):
    """How each picture is drawn; names are diffusers'. None takes the model's own default."""

    younger: ClassVar[frozenset[str]] = frozenset({"guidance_scale_2"})
    num_inference_steps: int = Field(20, ge=1)
    height: int | None = None
    width: int | None = None
    """Pixels, a multiple of 16; some models take multiples of 32 only."""
    true_cfg_scale: float | None = Field(None, gt=0)
    """Classifier-free guidance of Qwen-Image, with the negative prompt."""
    guidance_scale: float | None = Field(None, ge=0)
    """Distilled guidance of FLUX.1, classifier-free guidance of Wan."""
    guidance_scale_2: float | None = Field(None, ge=0)
    """The same of the second transformer of Wan's two, which draws the last steps, at low noise;
    None takes ``guidance_scale`` there too."""
    negative_prompt: str | None = None
    num_frames: int | None = None
    """Frames of a video, 4k+1; None for images. Another number becomes the one that is drawn,
    with a warning."""
    fps: float | None = Field(None, allow_inf_nan=True)  # refused with its range, below
    """Frames a second of a video; part of what is asked, though no frame depends on it."""

    @field_validator("height", "width")
    @classmethod
    def _whole_tokens(cls, value: int | None) -> int | None:
        return whole_tokens(value)

    @field_validator("num_frames", mode="before")
    @classmethod
    def _whole_frames(cls, value: Any) -> Any:
        return whole_frames(value)

    @field_validator("fps", mode="before")
    @classmethod
    def _a_number(cls, value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError(_RATES)
        return value

    @field_validator("fps")
    @classmethod
    def _possible_fps(cls, value: float | None) -> float | None:
        return value if value is None else possible_fps(value)


def nearest_multiples(value: int, of: int) -> list[int]:
    """The multiples of a number on either side of a value, none below the number itself."""
    return sorted({max(value // of, 1) * of, max(-(-value // of), 1) * of})


def whole_tokens(pixels: int | None) -> int | None:
    """Pixels of a side as they were given, unless no model draws so many.

    Raises:
        ValueError: no multiple of 16; names those on either side.
    """
    if pixels is None or (pixels >= PIXELS_PER_TOKEN and pixels % PIXELS_PER_TOKEN == 0):
        return pixels
    raise ValueError(
        f"pixels are a multiple of {PIXELS_PER_TOKEN}; "
        f"use {' or '.join(map(str, nearest_multiples(pixels, PIXELS_PER_TOKEN)))}"
    )


def possible_fps(value: float) -> float:
    """Frames a second as they were given, unless no MP4 file holds them.

    Raises:
        ValueError: none of 0.001 to 1000.
    """
    if SLOWEST <= value <= FASTEST:  # neither nan nor inf is
        return value
    raise ValueError(_RATES)


def frames_drawn(frames: int, every: int = VAE_FRAMES) -> int:
    """What the engine and diffusers draw where so many frames are asked for.

    One more than a multiple of the VAE's temporal factor: models/wan2_2/pipeline_wan2_2.py:758,
    and the same in diffusers' pipeline_wan.py.

    Args:
        frames: Asked for.
        every: Frames to one latent frame.
    """
    return frames if frames % every == 1 % every else frames // every * every + 1


def frames_note(asked: int, every: int = VAE_FRAMES) -> str | None:
    """What to tell who asked for a number of frames that is not drawn."""
    drawn = frames_drawn(asked, every)
    if drawn == asked:
        return None
    said = "1 frame is" if drawn == 1 else f"{drawn} frames are"
    return (
        f"num_frames={asked} is not {every}k+1, so {said} drawn, as vLLM-Omni and "
        f"diffusers would; ask for {drawn} to say so yourself"
    )


def check_image_count(images: int, prompts: int) -> None:
    """Refuse a number of first frames that says not which prompt begins with which.

    Raises:
        ValueError: neither one for all prompts nor one for each.
    """
    if images not in (1, prompts):
        raise ValueError(
            f"{images} images for {prompts} prompts; give one for all, or one for each"
        )


def whole_frames(value: Any) -> Any:
    """A number of frames as it was given, unless it is none.

    Raises:
        ValueError: no whole number of 1 or more.
    """
    given = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
    if given is None or (not isinstance(given, bool) and given == _whole(given) >= 1):
        return given
    raise ValueError("frames are a whole number, 1 or more; use 4k+1 of them, such as 49")


def _whole(value: Any) -> int:
    """A number without its fraction; 0 for what is no number."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
