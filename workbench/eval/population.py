"""Many pairs, one statement: spread, interval and paired effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import ComparisonRefused
from workbench.eval.metric_table import INFINITY
from workbench.eval.temporal_metrics import KNOWN

RESAMPLES = 2000
CONFIDENCE = 0.95
SEED = 0
QUANTILES = {"min": 0.0, "q1": 0.25, "median": 0.5, "q3": 0.75, "max": 1.0}


def spread(values: pd.Series, identical: float = INFINITY) -> dict[str, float]:
    """Mean, minimum, quartiles and maximum; not a number where no value counts.

    Args:
        values: One a pair.
        identical: The metric's value for identical inputs. Where that is infinite (PSNR), such
            values are left out, so that they never poison a mean; an infinite error (the motion of
            a clip that stands still) counts, and may make a mean or a quantile infinite.

    Returns:
        finite (values that are), infinite (errors that are), mean and the keys of QUANTILES.
    """
    counted = _counted(values, identical)
    finite = len(_finite(values))
    return {
        "finite": finite,
        "infinite": len(counted) - finite,
        "mean": float(counted.mean()),
        **{name: _quantile(counted.to_numpy(), at) for name, at in QUANTILES.items()},
    }


def interval(
    values: pd.Series, prompts: Sequence[Any], identical: float = INFINITY
) -> tuple[float, float]:
    """95 % bootstrap interval of the median over the values that :func:`spread` counts.

    Pictures of one prompt resemble each other, so prompts are drawn with replacement first, and
    then the seeds of each; with a single prompt, seeds alone. The percentile interval of Efron and
    Tibshirani 1993, chapter 13, with the resampling by clusters of Davison and Hinkley 1997,
    section 3.8; seeded, so that the same pairs give the same interval.

    Args:
        values: One a pair.
        prompts: What each of them was drawn from.
        identical: As of :func:`spread`.

    Returns:
        Low and high; not a number with fewer than two such values.
    """
    counted = _counted(values, identical)
    if len(counted) < 2:
        return float("nan"), float("nan")
    of = pd.Series(list(prompts), index=values.index).loc[counted.index]
    grouped = counted.groupby(of.values)
    medians = _resampled_medians([group.to_numpy() for _, group in grouped])
    edges = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
    return _quantile(medians, edges[0]), _quantile(medians, edges[1])


def summarised(table: pd.DataFrame, floor: pd.DataFrame | None) -> pd.DataFrame:
    """Each metric of a comparison over its pairs; see :meth:`Comparison.summary`.

    Args:
        table: :meth:`Comparison.table`.
        floor: The same of the floor, or None.
    """
    counts = {"n": len(table), "identical": int(table["identical"].sum())}
    rows = {}
    for name in (name for name in KNOWN if name in table):
        identical = KNOWN[name].identical
        low, high = interval(table[name], table["prompt"], identical)
        rows[name] = counts | spread(table[name], identical) | {"low": low, "high": high}
        measured = floor is not None and name in floor
        rows[name]["floor"] = worst(floor[name], name) if measured else float("nan")
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("metric")


def worst(values: pd.Series, metric: str) -> float:
    """The value that is farthest from identical; not a number where there is none."""
    known = values.dropna().to_numpy(float)
    return float(known[KNOWN[metric].farness(known).argmax()]) if known.size else float("nan")


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


def _counted(values: pd.Series, identical: float) -> pd.Series:
    """Without what is no number, and without the infinity of identical inputs."""
    known = values.astype(float).dropna()
    return known[np.isfinite(known) | (known != identical)]


def _quantile(values: np.ndarray, at: float) -> float:
    """Linear between neighbours, as NumPy's, and infinite beside an infinity rather than NaN."""
    if not values.size:
        return float("nan")
    if np.isfinite(values).all():
        return float(np.quantile(values, at))
    ordered, place = np.sort(values), at * (len(values) - 1)
    below, above = ordered[int(place)], ordered[int(np.ceil(place))]
    return float(below if below == above else below + (above - below) * (place % 1))


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
