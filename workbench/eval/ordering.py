"""Candidates from closest to farthest, by PSNR, and of videos over time too."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise

import pandas as pd

from workbench.errors import ComparisonRefused
from workbench.eval.comparison import Comparison
from workbench.eval.labels import labels
from workbench.eval.population import spread, typical
from workbench.eval.temporal_metrics import KNOWN

OVER_TIME = ("flicker_error", "jitter")
"""Of the metrics over time those that tables of all candidates have room for."""
ORDERING = ("psnr_db", *OVER_TIME)
_SHORT = {"flicker_error": "flicker", "jitter": "jitter"}


def ordering_metrics(comparisons: Iterable[Comparison]) -> list[str]:
    """PSNR, and of videos flicker and jitter, where every comparison has them; else relative L2."""
    tables = [one.table() for one in comparisons]
    return [name for name in ORDERING if all(name in table for table in tables)] or ["relative_l2"]


def fidelity_order(comparisons: Iterable[Comparison], metric: str = "psnr_db") -> pd.DataFrame:
    """The precisions from closest to farthest from the reference, as measured.

    Args:
        comparisons: One a candidate, against one reference.
        metric: A column of their tables that :func:`workbench.metric_table` knows; its ``better``
            says which end is close, and its distance from identical counts where it has two sides.

    Returns:
        precision; the metric (:func:`workbench.eval.population.typical`: the median over the pairs,
        infinite values among them; of equal ones the worse pairs decide, and what has no value
        comes last); n; left_out (pairs without a
        value); and closer_than_next: in how many of the pairs common to both this one is closer
        than the next row, and how many are equal or cannot be compared.
        ``attrs["time_note"]`` of videos: what an order by PSNR does not say.

    Raises:
        ComparisonRefused: a comparison without this metric; two candidates without a pair in
            common.
    """
    every = list(comparisons)
    rows = _ranked(every, metric)
    beaten = [_wins(a, b, metric) for (_, a, _), (_, b, _) in pairwise(rows)] + ["–"]
    order = pd.DataFrame(
        {
            "precision": [name for name, _, _ in rows],
            metric: [value for *_, value in rows],
            "n": [len(one.pairs) for _, one, _ in rows],
            "left_out": [int(one.table()[metric].isna().sum()) for _, one, _ in rows],
            "closer_than_next": beaten[: len(rows)],
        }
    )
    order.attrs["time_note"] = time_note(every)
    return order


def farthest(comparisons: Iterable[Comparison], metric: str = "psnr_db") -> Comparison:
    """The last of :func:`fidelity_order`."""
    return _ranked(comparisons, metric)[-1][1]


def fidelity_orders(comparisons: Iterable[Comparison]) -> pd.DataFrame:
    """:func:`fidelity_order` by each of :func:`ordering_metrics`, below each other.

    Returns:
        metric (its key), precision, median, n, left_out, closer_than_next; and ``attrs`` as there.
    """
    every = list(comparisons)
    orders = [
        fidelity_order(every, name).rename(columns={name: "median"}).assign(metric=name)
        for name in ordering_metrics(every)
    ]
    whole = pd.concat(orders, ignore_index=True)
    whole.attrs["time_note"] = time_note(every)
    return whole[["metric", *whole.columns.drop("metric")]]


def time_note(comparisons: Iterable[Comparison]) -> str:
    """What PSNR does not say of videos, and what is left out of it; empty of pictures."""
    every = list(comparisons)
    if not any(one.of_videos for one in every):
        return ""
    said = "PSNR of a video is the mean over its frames; an order by it says nothing about time: "
    there = [name for name in OVER_TIME if any(name in one.table() for one in every)]
    if there:
        said += f"read {' and '.join(map(_SHORT.get, there))} beside it."
        return " ".join([said, *_left(every, there), *_identical_frames(every), *_untold(every)])
    reasons = _reasons(every, OVER_TIME[0])
    return f"{said}and no metric over time is here{': ' * bool(reasons)}{reasons}."


def _left(every: list[Comparison], there: list[str]) -> Iterator[str]:
    """A sentence for each metric over time that is not here, where a reason is known."""
    for name in (name for name in OVER_TIME if name not in there):
        if reasons := _reasons(every, name):
            yield f"No {_SHORT[name]} here: {reasons}."


def _reasons(every: list[Comparison], name: str) -> str:
    return "; ".join(dict.fromkeys(filter(None, (one.missing.get(name) for one in every))))


def _identical_frames(every: list[Comparison]) -> Iterator[str]:
    """Whose clips have more identical frames, which no mean of PSNR has; nothing where none has.

    Clips that are identical as a whole are infinite, and hide nothing.
    """
    found = {}
    for name, one in zip(labels(one.candidate for one in every), every, strict=True):
        clips = [one.frames(row)["identical"] for row in range(len(one.pairs))]
        if partly := [clip for clip in clips if not clip.all()]:
            found[name] = pd.concat(partly)
    if len({same.mean() for same in found.values()}) > 1:
        listed = ", ".join(f"{name} {same.sum()} of {len(same)}" for name, same in found.items())
        yield f"Identical frames, which are in no mean of PSNR: {listed}."


def _untold(every: list[Comparison]) -> Iterator[str]:
    """A sentence for each candidate and metric over time that some pairs have no value of."""
    for name, one in zip(labels(one.candidate for one in every), every, strict=True):
        table = one.table()
        for metric in (metric for metric in OVER_TIME if metric in table):
            if lost := int(table[metric].isna().sum()):
                title = KNOWN[metric].title.capitalize()
                yield f"{title} of {name} could not be told in {lost} of {len(table)} pairs."


def _ranked(comparisons: Iterable[Comparison], metric: str) -> list[tuple[str, Comparison, float]]:
    """Label, comparison and :func:`typical` value, closest first."""
    every = list(comparisons)
    named = zip(labels(one.candidate for one in every), every, strict=True)
    rows = [(name, one, _typical(one, metric)) for name, one in named]
    return sorted(rows, key=lambda row: _far(row[1], metric))


def _typical(one: Comparison, metric: str) -> float:
    table = one.table()
    if metric not in table or metric not in KNOWN:
        there = ", ".join(name for name in KNOWN if name in table)
        why = f": {one.missing[metric]}" if metric in one.missing else ""
        raise ComparisonRefused(
            f"{one.candidate.precision} has no metric {metric!r}{why}; order by one of {there}"
        )
    return typical(table[metric], metric)


def _far(one: Comparison, metric: str) -> tuple[bool, float, float, float]:
    """What is sorted by: no value last; the median, and of equal ones the worse pairs."""
    found = spread(KNOWN[metric].farness(one.table()[metric].astype(float)))
    return (math.isnan(found["median"]), found["median"], found["q3"], found["max"])


def _wins(a: Comparison, b: Comparison, metric: str) -> str:
    found = a.against(b, metric)
    others = {"equal": found["equal"], "not comparable": found["left_out"]}
    beside = "".join(f", {count} {what}" for what, count in others.items() if count)
    return f"{found['closer']} of {found['n']} pairs{beside}"


def median_psnr(one: Comparison) -> float:
    """Over the pairs, dB; infinite where most are identical; else NaN if not asked for."""
    values = one.summary()
    if values["identical"].iloc[0] == values["n"].iloc[0]:
        return float("inf")
    return float(values["median"].get("psnr_db", float("nan")))
