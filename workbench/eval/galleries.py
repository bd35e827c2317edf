"""Many pairs at a glance, worst first: an HTML fragment, whole in itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from itertools import islice

import numpy as np
from PIL import Image

from workbench.eval.media import GAIN, Html, data_uri, difference, filled, fitted, image_tag
from workbench.eval.viewers import error_picture, scale_css

THUMB_SIDE = 256  # longest side of a thumbnail, pixels


@dataclass(frozen=True, kw_only=True, eq=False)
class PairRow:
    """One pair of a gallery."""

    prompt: str
    seed: int
    scores: Mapping[str, str]
    """What to call a score -> its value as text: ``{"PSNR": "21.3 dB"}``."""
    reference: Image.Image = field(repr=False)
    candidate: Image.Image = field(repr=False)
    errors: np.ndarray | None = field(default=None, repr=False)
    """[height, width], 0 to 1: the FLIP error; None leaves its thumbnail out."""


def worst_pairs(
    rows: Iterable[PairRow],
    *,
    count: int = 6,
    labels: tuple[str, str] = ("reference", "candidate"),
    caption: str = "",
) -> Html:
    """A row a pair: reference, candidate, difference, error map, with prompt, seed and scores.

    Thumbnails of at most 256 pixels a side as lossy WebP: 30 to 90 KB a row for photographs.

    Args:
        rows: worst first; no more than ``count`` are drawn from it, so it may be a generator.
        count: rows to show.
        labels: what to call reference and candidate.
        caption: a line above.

    Raises:
        ComparisonRefused: a pair of unequal sizes, or an error map of another size or range.
    """
    shown = list(islice(rows, count))
    mapped = any(row.errors is not None for row in shown)
    return filled(
        "worst_pairs.html",
        caption=escape(caption),
        rows="\n".join(_row(row, labels) for row in shown) or "no pairs",
        scale=scale_css(),
        legend="" if mapped else " hidden",
        width=THUMB_SIDE,
    )


def _row(row: PairRow, labels: tuple[str, str]) -> str:
    shown = [
        (labels[0], row.reference),
        (labels[1], row.candidate),
        (f"difference x {GAIN}", difference(row.reference, row.candidate)),
    ]
    if row.errors is not None:
        shown.append(("FLIP error", error_picture(row.errors, row.reference.size)))
    figures = [
        f"<figure>{image_tag(data_uri(fitted(one, THUMB_SIDE), lossy=True), name)}"
        f"<figcaption>{escape(name)}</figcaption></figure>"
        for name, one in shown
    ]
    scores = [f"{escape(name)}&nbsp;<b>{escape(value)}</b>" for name, value in row.scores.items()]
    told = " · ".join([f"seed&nbsp;{row.seed}", *scores])
    return (
        f'<section><div class="prompt-text">{escape(row.prompt)}</div>'
        f'<div class="about">{told}</div><div class="row">{"".join(figures)}</div></section>'
    )
