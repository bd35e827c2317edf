"""Pictures to look at: HTML fragments, whole in themselves, for notebooks, reports and files."""

from __future__ import annotations

import base64
import io
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib import resources
from string import Template

import numpy as np
from PIL import Image, ImageChops

from workbench.errors import ComparisonRefused, SpecError
from workbench.eval.frames import frames_of
from workbench.eval.labels import label
from workbench.records import Generation, GenerationSet

GAIN = 8  # differences are small: shown this many times larger
FLIP_SIDE, GRID_SIDE, FRAME_SIDE = 1024, 320, 256  # longest side shown, pixels
QUALITY = 75  # of lossy WebP, 0 to 100


@dataclass(frozen=True)
class Html:
    """A piece of a page; notebooks show it, ``str()`` gives its source."""

    source: str = field(repr=False)

    def _repr_html_(self) -> str:
        return self.source

    def __str__(self) -> str:
        return self.source


def flip(
    pictures: tuple[Image.Image, Image.Image], *, labels: tuple[str, str], caption: str = ""
) -> Html:
    """Two pictures in one place, flipped by click, by space or by themselves, and their difference.

    Args:
        pictures: RGB, of one size: the reference and the candidate.
        labels: what to call them.
        caption: a line above.

    Raises:
        ComparisonRefused: unequal sizes.
    """
    shown = [*pictures, difference(*pictures)]
    names = [f"reference {labels[0]}", f"candidate {labels[1]}", f"difference x {GAIN}"]
    buttons = [
        f'<button type="button" data-show aria-pressed="{pressed}">{escape(name)}</button>'
        for name, pressed in zip(names, ("true", "false", "false"), strict=True)
    ]
    images = [
        image_tag(data_uri(fitted(picture, FLIP_SIDE)), name, hidden)
        for picture, name, hidden in zip(shown, names, ("", " hidden", " hidden"), strict=True)
    ]
    width = min(max(pictures[0].width, 384), FLIP_SIDE)
    return filled(
        "flip.html",
        caption=escape(caption),
        buttons="\n".join(buttons),
        images="\n".join(images),
        width=width,
    )


def scrubber(
    frames: Mapping[str, Sequence[Image.Image]],
    timesteps: Sequence[float] | np.ndarray,
    *,
    caption: str = "",
) -> Html:
    """A slider through the denoising steps: reference, each candidate, and their difference.

    Args:
        frames: label -> steps + 1 RGB pictures, the initial noise first; the first label is the
            reference.
        timesteps: [steps], the scheduler's timestep of each step.
        caption: a line above.

    Raises:
        ComparisonRefused: not one picture a step, or unequal sizes.
    """
    for name, pictures in frames.items():
        if len(pictures) != len(timesteps) + 1:
            raise ComparisonRefused(
                f"{name!r} has {len(pictures)} frames for {len(timesteps)} timesteps; "
                f"pass {len(timesteps) + 1}, the initial noise first"
            )
    panes = {
        name: [data_uri(fitted(frame, FRAME_SIDE), lossy=True) for frame in row]
        for name, row in _panes(frames)
    }
    steps = ["initial noise"] + [
        f"step {i} of {len(timesteps)}, timestep {t:.1f}" for i, t in enumerate(timesteps, 1)
    ]
    images = [
        f"<figure>{image_tag(row[-1], name)}<figcaption>{escape(name)}</figcaption></figure>"
        for name, row in panes.items()
    ]
    return filled(
        "scrubber.html",
        caption=escape(caption),
        last=len(timesteps),
        label=steps[-1],
        images="\n".join(images),
        frames=json.dumps(list(panes.values())),
        labels=json.dumps(steps),
        width=FRAME_SIDE,
    )


def grid(
    sets: Mapping[str, GenerationSet], *, prompt: int | str = 0, seed: int | None = None
) -> Html:
    """One prompt at all precisions side by side, one row a seed; of videos their first frames.

    Args:
        sets: label -> set; the first is the reference of the PSNR under the others.
        prompt: the prompt, or its index in the reference.
        seed: None shows all seeds of the reference.

    Raises:
        SpecError: no such prompt or seed in the reference.
    """
    reference = next(iter(sets.values()))
    text = dict(enumerate(reference.spec.prompts.prompts)).get(prompt, prompt)
    chosen = [item for item in reference if item.prompt == text and seed in (None, item.seed)]
    if not chosen:
        raise SpecError(
            f"{label(reference)} {reference.key} has no prompt {text!r} at seed {seed}; it has "
            f"{list(reference.spec.prompts.prompts)} at seeds {list(reference.spec.seeds)}"
        )
    rows = [_grid_row(item, sets) for item in chosen]
    return filled(
        "grid.html", caption=escape(text), rows="\n".join(rows), width=GRID_SIDE // 2 + 20
    )


def difference(reference: Image.Image, candidate: Image.Image) -> Image.Image:
    """The absolute difference of two RGB pictures, 8 times as bright.

    Raises:
        ComparisonRefused: unequal sizes.
    """
    refuse_unequal(reference, candidate)
    apart = ImageChops.difference(reference.convert("RGB"), candidate.convert("RGB"))
    return apart.point(lambda value: min(GAIN * value, 255))


def refuse_unequal(reference: Image.Image, candidate: Image.Image) -> None:
    """Refuse two pictures that cannot be laid over each other.

    Raises:
        ComparisonRefused: unequal sizes.
    """
    if reference.size != candidate.size:
        raise ComparisonRefused(
            f"pictures of {reference.size} and {candidate.size} pixels; generate both at one "
            "height and width"
        )


def data_uri(picture: Image.Image, *, lossy: bool = False) -> str:
    """A picture as text for ``src``: lossless PNG, or small WebP for thumbnails."""
    stream = io.BytesIO()
    kind = "webp" if lossy else "png"
    picture.convert("RGB").save(
        stream, kind, **({"quality": QUALITY} if lossy else {"optimize": True})
    )
    return f"data:image/{kind};base64,{base64.b64encode(stream.getvalue()).decode()}"


def _panes(frames: Mapping[str, Sequence[Image.Image]]) -> list[tuple[str, list[Image.Image]]]:
    (first, reference), *others = frames.items()
    panes = [(first, list(reference))]
    for name, candidate in others:
        apart = [difference(a, b) for a, b in zip(reference, candidate, strict=True)]
        panes += [(name, list(candidate)), (f"difference of {name} x {GAIN}", apart)]
    return panes


def _grid_row(reference: Generation, sets: Mapping[str, GenerationSet]) -> str:
    shown, first = [], frames_of(reference)[0]
    for name, one in sets.items():
        item = next(
            (i for i in one if (i.prompt, i.seed) == (reference.prompt, reference.seed)), None
        )
        if item is not None:
            frames = frames_of(item)
            picture = data_uri(fitted(frames[0], GRID_SIDE), lossy=True)
            which = "frame 0: " if len(frames) > 1 else ""
            against = _against(reference, item, (first, frames[0]))
            caption = f"<b>{escape(name)}</b>{which}{against}"
            shown.append(
                f"<figure>{image_tag(picture, f'{name}: {item.prompt}')}"
                f"<figcaption>{caption}</figcaption></figure>"
            )
    return f'<div>seed {reference.seed}</div><div class="row">{"".join(shown)}</div>'


def image_tag(source: str, name: str, attributes: str = "") -> str:
    """An ``img`` of a data URI; ``name`` is what a screen reader says."""
    return f'<img src="{source}" alt="{escape(name)}"{attributes}>'


def _against(
    reference: Generation, item: Generation, pictures: tuple[Image.Image, Image.Image]
) -> str:
    from workbench.eval.fidelity import psnr_db

    if item.folder == reference.folder:
        return "reference"
    if item.sha256 == reference.sha256:
        return "identical"
    apart = psnr_db(*map(np.asarray, pictures))
    return f"{apart:.1f} dB" if np.isfinite(apart) else "identical"  # as a given first frame is


def fitted(picture: Image.Image, side: int) -> Image.Image:
    """A copy whose longest side has at most ``side`` pixels."""
    shown = picture.copy()
    shown.thumbnail((side, side), Image.Resampling.LANCZOS)  # never enlarges
    return shown


def filled(template: str, **values: object) -> Html:
    """A file of ``workbench/eval/templates`` with its values and an id of its own put in."""
    unique = f"wb-{uuid.uuid4().hex[:12]}"
    return Html(
        Template(read_template(template)).substitute(
            id=unique, css=read_template("media.css"), **values
        )
    )


@cache
def read_template(name: str) -> str:
    """Text of a file of ``workbench/eval/templates``."""
    return resources.files("workbench.eval").joinpath("templates", name).read_text(encoding="utf-8")
