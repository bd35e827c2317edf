"""Arguments of the calibration runs: what the served pipeline would get, without decoding."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.errors import SpecError
from workbench.first_frames import InputImage, decoded, fitted, read
from workbench.recipes import Calibration
from workbench.zoo.component_configs import pixels_of_a_patch
from workbench.zoo.families import family_of
from workbench.zoo.models import default_sampling

_SECOND = "guidance_scale_2"


def input_images(source: Path, calibration: Calibration) -> list[InputImage | None]:
    """The first frame of each prompt, at the calibrated size; None for a prompt alone.

    Args:
        source: Pipeline whose default sampling fills in what the calibration leaves open.
        calibration: The recipe's.

    Raises:
        SpecError: a file that is no picture, of another aspect ratio, or that has changed since
            the calibration was made.
    """
    if not calibration.images:
        return [None] * len(calibration.prompts)
    size, multiple = _size(source, calibration), pixels_of_a_patch(source)
    given = zip(calibration.images, calibration.image_sha256 or (), strict=True)
    found = [
        None if file is None else fitted(_read(file, digest), size, multiple)
        for file, digest in given
    ]
    return found * len(calibration.prompts) if len(found) == 1 else found


def begins(found: Sequence[InputImage | None]) -> str:
    """How many calibration runs begin with a first frame, in words, of a model that takes one.

    >>> begins([None, None])
    '0 of 2 prompts with a first frame: drawing from images is not calibrated'

    Args:
        found: From :func:`input_images`.
    """
    given = sum(one is not None for one in found)
    rest = {0: ": drawing from images is not calibrated", len(found): ""}
    said = f"{given} of {len(found)} prompts with a first frame"
    return said + rest.get(given, ", the others alone")


def first_frames(source: Path, calibration: Calibration) -> list[Any]:
    """The picture that each prompt begins with; None for a prompt alone.

    Raises:
        SpecError: as :func:`input_images`.
    """
    return [one and one.picture for one in input_images(source, calibration)]


def _read(file: str, digest: str | None) -> Any:
    content = read(file)
    now = hashlib.sha256(content).hexdigest()
    if now != digest:
        raise SpecError(
            f"{file} has another content than when its Calibration was made: SHA-256 {digest} "
            f"then, {now} now; make the Calibration again"
        )
    return decoded(content, file)


def _size(source: Path, calibration: Calibration) -> tuple[int, int]:
    served = default_sampling(source)
    return calibration.width or served["width"], calibration.height or served["height"]


def call_arguments(source: Path, calibration: Calibration, guidance: str) -> dict[str, Any]:
    """Keyword arguments of one call of the pipeline, all but prompt, steps and generator.

    Args:
        source: Pipeline whose default sampling fills in what the calibration leaves open.
        calibration: The recipe's.
        guidance: Pipeline argument that scales guidance, ``guidance_scale`` or ``true_cfg_scale``.
    """
    served = default_sampling(source)
    arguments = {name: served[name] for name in ("negative_prompt", "num_frames") if name in served}
    if calibration.num_frames is not None:
        arguments["num_frames"] = calibration.num_frames
    arguments["width"], arguments["height"] = _size(source, calibration)
    arguments |= _guidance(source, calibration, served, guidance)
    return {**arguments, "output_type": "latent"}


def _guidance(
    source: Path, calibration: Calibration, served: Mapping[str, Any], name: str
) -> dict[str, float]:
    """What was asked for, else what the model is served with; of a second transformer too."""
    first, second = calibration.guidance_scale, calibration.guidance_scale_2
    if first is None:
        own = served.get(name)  # a card need not say it
        first = family_of(source).sampling[name] if own is None else own
    second = served.get(_SECOND) if second is None else second
    return {name: first} if second is None else {name: first, _SECOND: second}
