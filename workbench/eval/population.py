"""Many pairs, one statement: spread, interval and paired effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import ComparisonRefused
from workbench.eval.temporal_metrics import KNOWN

RESAMPLES = 2000
CONFIDENCE = 0.95
SEED = 0
QUANTILES = {"min": 0.0, "q1": 0.25, "median": 0.5, "q3": 0.75, "max": 1.0}


def spread(values: pd.Series) -> dict[str, float]:
    """Mean, minimum, quartiles and maximum of the finite values; not a number where there is none.

    Infinite values (PSNR of identical pictures) are left out, so that they never poison a mean;
    ``finite`` counts those that are in.
    """
    finite = _finite(values)
    return {
        "finite": len(finite),
        "mean": float(finite.mean()),
        **{name: float(finite.quantile(at)) for name, at in QUANTILES.items()},
    }


def interval(values: pd.Series, prompts: Sequence[Any]) -> tuple[float, float]:
    """95 % bootstrap interval of the median over the finite values.

    Pictures of one prompt resemble each other, so prompts are drawn with replacement first, and
    then the seeds of each; with a single prompt, seeds alone. The percentile interval of Efron and
    Tibshirani 1993, chapter 13, with the resampling by clusters of Davison and Hinkley 1997,
    section 3.8; seeded, so that the same pairs give the same interval.

    Args:
        values: One a pair.
        prompts: What each of them was drawn from.

    Returns:
        Low and high; not a number with fewer than two finite values.
    """
    finite = _finite(values)
    if len(finite) < 2:
        return float("nan"), float("nan")
    grouped = finite.groupby(pd.Series(list(prompts), index=values.index).loc[finite.index].values)
    medians = _resampled_medians([group.to_numpy() for _, group in grouped])
    low, high = np.quantile(medians, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def summarised(table: pd.DataFrame, floor: pd.DataFrame | None) -> pd.DataFrame:
    """Each metric of a comparison over its pairs; see :meth:`Comparison.summary`.

    Args:
        table: :meth:`Comparison.table`.
        floor: The same of the floor, or None.
    """
    counts = {"n": len(table), "identical": int(table["identical"].sum())}
    rows = {}
    for name in (name for name in KNOWN if name in table):
        low, high = interval(table[name], table["prompt"])
        rows[name] = counts | spread(table[name]) | {"low": low, "high": high}
        measured = floor is not None and name in floor
        rows[name]["floor"] = worst(floor[name], name) if measured else float("nan")
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("metric")


def worst(values: pd.Series, metric: str) -> float:
    """The value that is farthest from identical."""
    return float(values.min() if KNOWN[metric].better == "higher" else values.max())


def paired_effect(first: pd.DataFrame, second: pd.DataFrame, metric: str) -> dict[str, float]:
    """How much ``first`` differs from ``second`` on the same prompts and seeds.

    Args:
        first: prompt, seed and the column ``metric``, as :meth:`Comparison.table` gives.
        second: The same of another candidate against the same reference.
        metric: A column of both.

    Returns:
        n (pairs in both), finite (of them with a finite difference), median of ``first - second``,
        low and high of its interval as in :func:`interval`, larger (pairs where ``first`` has the
        larger value), equal.

    Raises:
        ComparisonRefused: no pair in common, or no such metric.
    """
    for table in (first, second):
        if metric not in table:
            known = ", ".join(name for name in table if table[name].dtype.kind == "f")
            raise ComparisonRefused(f"there is no metric {metric!r} here; there are {known}")
    both = first.merge(second, on=["prompt", "seed"], suffixes=("_1", "_2"))
    if both.empty:
        raise ComparisonRefused(
            "the two candidates share no prompt and seed; generate both with the same ones"
        )
    a, b = (both[f"{metric}_{i}"].astype(float) for i in (1, 2))
    with np.errstate(invalid="ignore"):
        difference = a - b
    low, high = interval(difference, both["prompt"])
    return {
        "n": len(both),
        "finite": len(_finite(difference)),
        "median": float(_finite(difference).median()),
        "low": low,
        "high": high,
        "larger": int((a > b).sum()),
        "equal": int((a == b).sum()),
    }


def _finite(values: pd.Series) -> pd.Series:
    return values[np.isfinite(values.to_numpy(float))].astype(float)


def _resampled_medians(groups: list[np.ndarray]) -> np.ndarray:
    generator = np.random.default_rng(SEED)
    sizes = np.array([len(group) for group in groups])
    padded = np.full((len(groups), sizes.max()), np.nan)
    for row, group in zip(padded, groups, strict=True):
        row[: len(group)] = group
    chosen = generator.integers(len(groups), size=(RESAMPLES, len(groups)))
    within = generator.random((*chosen.shape, sizes.max())) * sizes[chosen][..., None]
    drawn = padded[chosen[..., None], within.astype(int)]
    drawn[np.arange(sizes.max()) >= sizes[chosen][..., None]] = np.nan  # no more than the group has
    return np.nanmedian(drawn.reshape(RESAMPLES, -1), axis=1)
