"""Pictures and clips scored by the table of metrics; each metric loads its library on use."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import chain, islice
from threading import local
from typing import TYPE_CHECKING, Any

from workbench.errors import ComparisonRefused
from workbench.eval.metric_table import METRICS, Metric
from workbench.eval.temporal_metrics import KNOWN, VBENCH

if TYPE_CHECKING:
    import pandas as pd

    from workbench.eval.clips import Align
    from workbench.eval.pictures import Fit, Prepared

__all__ = ["DEFAULT", "METRICS", "Metric", "Scores", "metric_table", "score", "score_pairs"]

DEFAULT = ("psnr_db", "ssim", "flip", "mae", "high_frequency_error")
"""Cheap, and without weights."""


@dataclass(frozen=True)
class Scores:
    """What :func:`score` found for one pair."""

    values: dict[str, float]
    """By key of metric."""
    missing: dict[str, str] = field(default_factory=dict)
    """Why a metric has no value, by its key."""
    notes: tuple[str, ...] = ()
    """What was done to make the pictures alike."""
    clamped: int = 0
    """Values of both pictures that lay outside the range."""
    frames: pd.DataFrame | None = field(default=None, repr=False, compare=False)
    """Of two clips the metrics of each frame, as :meth:`Comparison.frames` gives; else None."""


def score(
    reference: Any,
    candidate: Any,
    *,
    metrics: Sequence[str] = DEFAULT,
    value_range: tuple[float, float] | None = None,
    fit: Fit | None = None,
    align: Align | None = None,
    prompt: str | None = None,
) -> Scores:
    """Measure how far one picture is from another, or one clip.

    Args:
        reference: picture, as :func:`~workbench.eval.pictures.prepare` takes it, or frames, as
            :func:`~workbench.eval.clips.prepare_clips` does.
        candidate: the same.
        metrics: keys of :func:`metric_table` that are not of latents. One that cannot be computed
            for want of weights or of a prompt is reported in ``missing``. Pictures too small for a
            metric are too, as long as ``metrics`` is left out. Of clips see
            :func:`~workbench.eval.scored_clips.score_clips`.
        value_range: black and white of what is not uint8.
        fit: what to do about unequal sizes, ``"crop"`` or ``"resize"``.
        align: what to do about unequal numbers of frames: ``"shorter"`` drops the last ones of the
            longer clip.
        prompt: what the candidate should show, for ``clip_score``.

    Raises:
        ComparisonRefused: an unknown metric; pictures that cannot be compared, or are too small for
            a metric that was asked for by name.
    """
    from workbench.eval.clips import is_clip
    from workbench.eval.pictures import prepare

    options = {"value_range": value_range, "fit": fit}
    if is_clip(reference) or is_clip(candidate):
        from workbench.eval.scored_clips import score_clips

        return score_clips(
            reference, candidate, metrics=metrics, align=align, prompt=prompt, **options
        )
    wanted = _of_pictures(metrics, align)
    prepared = prepare(reference, candidate, **options)
    values: dict[str, float] = {}
    missing: dict[str, str] = {}
    for metric in wanted:
        reason = _impossible(metric, prompt)
        try:
            if not reason:
                values[metric.key] = _value(metric, prepared, prompt)
        except ComparisonRefused as error:
            if metrics is not DEFAULT:
                raise
            reason = str(error)
        if reason:
            missing[metric.key] = reason
    return Scores(values, missing, prepared.notes, prepared.clamped)


def score_pairs(
    pairs: Iterable[tuple[Any, Any]],
    metrics: Sequence[str] = DEFAULT,
    *,
    value_range: tuple[float, float] | None = None,
    fit: Fit | None = None,
    prompts: Iterable[str] | None = None,
) -> Iterator[Scores]:
    """Measure many pairs of pictures or clips, one on each core at a time, in their order.

    Two pairs of pictures a core are held at most, or one pair of clips, whose frames are scored one
    after the other; so ``pairs`` may draw or read them as they are taken.

    Args:
        pairs: (reference, candidate), each as of :func:`score`.
        metrics: as of :func:`score`.
        value_range: as of :func:`score`, the same for all.
        fit: as of :func:`score`, the same for all.
        prompts: one a pair, for ``clip_score``.

    Raises:
        ComparisonRefused: as :func:`score` does, at the pair that it concerns; fewer or more
            prompts than pairs.
    """
    wanted_metrics(metrics)  # before the first pair, rather than at it
    options = {"metrics": metrics, "value_range": value_range, "fit": fit}
    return _scored(_with_prompts(pairs, prompts), options)


def metric_table() -> pd.DataFrame:
    """Every metric there is.

    Returns:
        One row each: key, title, unit, better (higher or lower), range, identical (value for
        identical inputs), on (pictures, latents, text or clips), source, available (empty, or the
        reason why not), vbench (VBench's dimension of clips that stands here, whether it is the
        same number, and its own column where it has one; empty where none does).
    """
    import pandas as pd

    columns = ("key", "title", "unit", "better", "range", "identical", "on", "source", "available")
    table = pd.DataFrame([{name: getattr(m, name) for name in columns} for m in KNOWN.values()])
    near = {one.beside: str(one) for one in VBENCH}
    return table.assign(vbench=table["key"].map(near).fillna(""))


_thread = local()  # pooled: in a worker of ours, where a clip is scored and its frames come next


def _scored(triples: Iterator[tuple[Any, Any, Any]], options: dict[str, Any]) -> Iterator[Scores]:
    if getattr(_thread, "pooled", False):
        yield from (score(a, b, prompt=prompt, **options) for a, b, prompt in triples)
        return
    from workbench.eval.clips import is_clip

    threads = os.cpu_count() or 1
    with ThreadPoolExecutor(
        threads, initializer=setattr, initargs=(_thread, "pooled", True)
    ) as pool:

        def started(triple: tuple[Any, Any, Any]) -> Future[Scores]:
            return pool.submit(score, triple[0], triple[1], prompt=triple[2], **options)

        first = list(islice(triples, 1))
        held = threads if any(is_clip(a) for a, *_ in first) else 2 * threads
        running = deque(map(started, chain(first, islice(triples, held - 1))))
        try:
            while running:
                yield running.popleft().result()
                running.extend(map(started, islice(triples, 1)))
        finally:
            for future in running:
                future.cancel()


def _with_prompts(
    pairs: Iterable[tuple[Any, Any]], prompts: Iterable[str] | None
) -> Iterator[tuple[Any, Any, Any]]:
    if prompts is None:
        yield from ((a, b, None) for a, b in pairs)
        return
    try:
        yield from ((a, b, prompt) for (a, b), prompt in zip(pairs, prompts, strict=True))
    except ValueError as error:
        raise ComparisonRefused(f"one prompt a pair, please: {error}") from error


def wanted_metrics(metrics: Sequence[str]) -> list[Metric]:
    """The metrics of these keys, or of this one.

    Raises:
        ComparisonRefused: an unknown key, or one of latents.
    """
    if isinstance(metrics, str):
        metrics = (metrics,)
    for key in metrics:
        if key not in KNOWN:
            near = get_close_matches(str(key).lower(), KNOWN, n=1, cutoff=0.0)[0]
            raise ComparisonRefused(
                f"there is no metric {key!r}; did you mean {near!r}? Known: {', '.join(KNOWN)}"
            )
        if KNOWN[key].on == "latents":
            pictures = ", ".join(m.key for m in METRICS.values() if m.on != "latents")
            raise ComparisonRefused(
                f"{key} measures latents, not pictures; compare() always gives it. Of pictures: "
                f"{pictures}"
            )
    return [KNOWN[key] for key in metrics]


def _of_pictures(metrics: Sequence[str], align: Align | None) -> list[Metric]:
    """The metrics, where all can be had of one picture."""
    if align is not None:
        raise ComparisonRefused(f"align={align!r} is for clips; leave it out for single pictures")
    wanted = wanted_metrics(metrics)
    if over_time := [metric.key for metric in wanted if metric.on == "clips"]:
        raise ComparisonRefused(
            f"{', '.join(over_time)} need at least 2 frames, and this is one picture; leave them "
            "out, or pass lists of frames"
        )
    return wanted


def _impossible(metric: Metric, prompt: str | None) -> str:
    if metric.on == "text" and not prompt:
        return "needs the prompt; pass prompt="
    return metric.available


def _value(metric: Metric, prepared: Prepared, prompt: str | None) -> float:
    first = prompt if metric.on == "text" else prepared.reference
    return metric.function(first, prepared.candidate)
