"""Several candidates against one reference: tables over all of them, and which is closer."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, pairwise

import pandas as pd

from workbench.eval.comparison import Comparison
from workbench.eval.labels import labels


def metric_stats(
    comparisons: Iterable[Comparison], metric: str, *, floor: Comparison | None = None
) -> pd.DataFrame:
    """One metric over all precisions, for :func:`workbench.eval.score_figures.scores_with_floor`.

    Args:
        comparisons: One a precision.
        metric: A row of :meth:`Comparison.summary`.
        floor: The reference against itself.

    Returns:
        One row a precision: precision, the columns of :meth:`Comparison.summary`, against_floor.
        ``attrs["floor"]`` holds low and high of the floor's pairs, or None.
    """
    every = list(comparisons)
    rows = [
        {**one.summary().loc[metric], "against_floor": one.against_floor, "precision": name}
        for name, one in zip(labels(one.candidate for one in every), every, strict=True)
    ]
    table = pd.DataFrame(rows).astype({"n": int, "identical": int})
    values = None if floor is None else floor.table()[metric].astype(float)
    table.attrs["floor"] = None if values is None else {"low": values.min(), "high": values.max()}
    return table


def pair_table(comparisons: Iterable[Comparison]) -> pd.DataFrame:
    """The rows of :meth:`Comparison.table` of several candidates, with their precision in front."""
    every = list(comparisons)
    names = labels(one.candidate for one in every)
    tables = [one.table().assign(precision=name) for name, one in zip(names, every, strict=True)]
    whole = pd.concat(tables, ignore_index=True)
    return whole[["precision", *whole.columns.drop("precision")]]


def pair_frames(comparisons: Iterable[Comparison]) -> pd.DataFrame:
    """Every frame of every pair of several candidates.

    Returns:
        One row a candidate, pair and frame: precision, prompt, seed, and the columns of
        :meth:`Comparison.frames`.
    """
    every = list(comparisons)
    tables = [
        one.frames(row).assign(precision=name, prompt=pair[0].prompt, seed=pair[0].seed)
        for name, one in zip(labels(one.candidate for one in every), every, strict=True)
        for row, pair in enumerate(one.pairs)
    ]
    whole = pd.concat(tables, ignore_index=True)
    first = ["precision", "prompt", "seed"]
    return whole[[*first, *whole.columns.drop(first)]]


def pair_effects(comparisons: Iterable[Comparison], metric: str) -> pd.DataFrame:
    """Each candidate less each later one on the same pairs.

    Returns:
        first, second, and what :meth:`Comparison.against` gives.
    """
    every = list(comparisons)
    named = list(zip(labels(one.candidate for one in every), every, strict=True))
    rows = [
        {"first": first, "second": second, **a.against(b, metric)}
        for (first, a), (second, b) in combinations(named, 2)
    ]
    return pd.DataFrame(rows)


def fidelity_order(comparisons: Iterable[Comparison]) -> pd.DataFrame:
    """The precisions from closest to farthest from the reference, as measured.

    Returns:
        precision; psnr_db (median over the finite values, infinite when all are identical); n; and
        closer_than_next: in how many of the pairs common to both this one beats the next row.
        ``attrs["time_note"]`` of videos: what this order does not say.
    """
    ranked = sorted(comparisons, key=median_psnr, reverse=True)
    beaten = [_wins(a, b) for a, b in pairwise(ranked)] + ["–"]
    order = pd.DataFrame(
        {
            "precision": labels(one.candidate for one in ranked),
            "psnr_db": [median_psnr(one) for one in ranked],
            "n": [len(one.pairs) for one in ranked],
            "closer_than_next": beaten[: len(ranked)],
        }
    )
    order.attrs["time_note"] = time_note(ranked)
    return order


def time_note(comparisons: Iterable[Comparison]) -> str:
    """What PSNR does not say of videos; empty of pictures."""
    frames = [one.frames(row) for one in comparisons for row in range(len(one.pairs))]
    if all(len(of_pair) < 2 for of_pair in frames):
        return ""
    measured = any("jitter" in of_pair or "flicker_error" in of_pair for of_pair in frames)
    instead = "read flicker and jitter beside it" if measured else "and no metric over time is here"
    return (
        "PSNR of a video is the mean over its frames; an order by it says nothing about time: "
        f"{instead}."
    )


def _wins(a: Comparison, b: Comparison) -> str:
    both = a.table().merge(b.table(), on=["prompt", "seed"], suffixes=("_a", "_b"))
    return f"{(both['psnr_db_a'] > both['psnr_db_b']).sum()} of {len(both)} pairs"


def median_psnr(one: Comparison) -> float:
    """Of the finite values, dB; infinite where all pairs are identical; NaN if not asked for."""
    values = one.summary()
    if values["identical"].iloc[0] == values["n"].iloc[0]:
        return float("inf")
    return float(values["median"].get("psnr_db", float("nan")))
