"""Several candidates against one reference: tables over all of them, and what tells two apart."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import pandas as pd

from workbench.eval.comparison import Comparison
from workbench.eval.floor_guard import refuse_foreign_floor
from workbench.eval.labels import labels
from workbench.eval.temporal_metrics import KNOWN


def metric_stats(
    comparisons: Iterable[Comparison], metric: str, *, floor: Comparison | None = None
) -> pd.DataFrame:
    """One metric over all precisions, for :func:`workbench.eval.score_figures.scores_with_floor`.

    Args:
        comparisons: One a precision.
        metric: A row of :meth:`Comparison.summary`.
        floor: The reference against itself; none is shown where it lacks the metric.

    Returns:
        One row a precision: precision, the columns of :meth:`Comparison.summary`, against_floor.
        ``attrs["floor"]`` holds low and high of the floor's pairs, or None.

    Raises:
        ComparisonRefused: a floor of another reference than these comparisons have.
    """
    every = list(comparisons)
    for one in every:
        refuse_foreign_floor(one.reference, floor)
    rows = [
        {**one.summary().loc[metric], "against_floor": one.against_floor, "precision": name}
        for name, one in zip(labels(one.candidate for one in every), every, strict=True)
    ]
    counts = ("n", "identical", "finite", "infinite", "left_out")
    table = pd.DataFrame(rows).astype(dict.fromkeys(counts, int))
    measured = floor is not None and metric in floor.table()
    values = floor.table()[metric].astype(float) if measured else None
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


def told_apart(comparisons: Iterable[Comparison], metric: str) -> list[str]:
    """What the intervals of :func:`pair_effects` allow to say of each two candidates.

    Returns:
        ``A is closer than B`` where the interval of the paired difference excludes 0, else ``A and
        B are not told apart``.
    """
    known, said = KNOWN[metric], []
    small = known.signed or known.better == "lower"  # which end is closer
    for row in pair_effects(comparisons, metric).itertuples():
        if row.high < 0 or row.low > 0:
            order = (row.first, row.second) if (row.high < 0) == small else (row.second, row.first)
            said.append("{} is closer than {}".format(*order))
        else:
            said.append(f"{row.first} and {row.second} are not told apart")
    return said
