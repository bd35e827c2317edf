"""What a quantizer runs through the 16-bit pipeline."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator, model_validator

from workbench.sampling import (
    check_image_count,
    frames_drawn,
    frames_note,
    whole_frames,
    whole_tokens,
)
from workbench.spec import Spec

if TYPE_CHECKING:
    from workbench.specs import Sampling


class Calibration(Spec):
    """The user's own prompts, run through the pipeline at the size that is served."""

    younger: ClassVar[frozenset[str]] = frozenset({"guidance_scale_2", "image_sha256"})
    prompts: tuple[str, ...] = Field(min_length=1)
    num_inference_steps: int = Field(8, ge=1)
    """Denoising steps of each calibration run."""
    height: int | None = None
    width: int | None = None
    """Pixels, a multiple of 16, of some models of 32; None takes the model's own default."""
    num_frames: int | None = None
    """Frames of a video, 4k+1; None takes the model's own default. Another number becomes the one
    that is drawn, with a warning."""
    guidance_scale: float | None = Field(None, ge=0)
    """Of Qwen-Image its true_cfg_scale; None takes the model's own default, as it is served."""
    guidance_scale_2: float | None = Field(None, ge=0)
    """Of the second of Wan's two transformers; None takes ``guidance_scale`` there too."""
    seed: int = Field(0, ge=0)
    images: tuple[str | None, ...] | None = Field(None, exclude=True)
    """Files of first frames, for a model that draws from them: one for all prompts, or one for
    each, None where a prompt goes alone. A Generation stands for the file of its first frame, a
    GenerationSet for all of them. Their content is in the key, not where they lie."""
    image_sha256: tuple[str | None, ...] | None = None
    """Of each of these files; filled in."""

    @classmethod
    def as_served(cls, sampling: Sampling, **fields: Any) -> Calibration:
        """With the size, frames and guidance that a sampling names; what it leaves open stays so.

        Args:
            sampling: Of the requests that the checkpoint will serve.
            fields: Of this class, which go before those of the sampling.
        """
        named = sampling.model_dump(include=cls.model_fields.keys() - {"seed"}, exclude_none=True)
        del named["num_inference_steps"]  # fewer do
        if sampling.true_cfg_scale is not None:
            named.setdefault("guidance_scale", sampling.true_cfg_scale)
        return cls(**{**named, **fields})

    @field_validator("height", "width")
    @classmethod
    def _whole_tokens(cls, value: int | None) -> int | None:
        return whole_tokens(value)

    @field_validator("num_frames", mode="before")
    @classmethod
    def _drawn_frames(cls, value: Any) -> Any:
        asked = whole_frames(value)
        if asked is None:
            return None
        if note := frames_note(int(asked)):
            warnings.warn(note, stacklevel=4)
        return frames_drawn(int(asked))

    @model_validator(mode="before")
    @classmethod
    def _digested(cls, values: Any) -> Any:
        given = values.get("images") if isinstance(values, dict) else None
        if given is None:
            return values
        many = isinstance(given, Iterable) and not isinstance(given, str)
        files = [getattr(one, "image_file", one) for one in (given if many else [given])]
        there = [file for file in files if file is not None]
        if not all(isinstance(file, (str, Path)) for file in there):
            raise ValueError(
                "images are paths of picture files, or Generations; save an image as PNG first"
            )
        if not there:
            raise ValueError("images names no file; leave it out to calibrate with prompts alone")
        missing = [str(file) for file in there if not Path(file).is_file()]
        if missing:
            raise ValueError(f"images={missing} are not there; give paths of picture files")
        names = tuple(None if file is None else str(file) for file in files)
        return {**values, "images": names, "image_sha256": tuple(map(_sha256, files))}

    @model_validator(mode="after")
    def _an_image_a_prompt(self) -> Calibration:
        if self.image_sha256 is not None:
            check_image_count(len(self.image_sha256), len(self.prompts))
        return self


def _sha256(file: str | Path | None) -> str | None:
    return None if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()
