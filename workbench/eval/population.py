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
    """Mean, minimum, quartiles and maximum; not a number where there is no value.

    Infinite values are values: PSNR of an identical pair is the best there is, and a median that
    left it out would speak against the candidate that has more of them.

    Args:
        values: One a pair.
        identical: The metric's value for identical inputs. Where that is infinite (PSNR), such
            values are in the quantiles and not in the mean, which would be infinite by one of them;
            an infinite error (the motion of a clip that stands still) is in both.

    Returns:
        finite and infinite (how many values are), left_out (how many are no number), mean and the
        keys of QUANTILES.
    """
    known = _known(values)
    finite = int(np.isfinite(known).sum())
    return {
        "finite": finite,
        "infinite": len(known) - finite,
        "left_out": len(values) - len(known),
        "mean": float(known[np.isfinite(known) | (known != identical)].mean()),
        **{name: _quantile(known.to_numpy(), at) for name, at in QUANTILES.items()},
    }


def interval(values: pd.Series, prompts: Sequence[Any]) -> tuple[float, float]:
    """95 % bootstrap interval of the median over the values that are numbers, infinite ones too.

    Pictures of one prompt resemble each other, so prompts are drawn with replacement first, and
    then the seeds of each; with a single prompt, seeds alone. The percentile interval of Efron and
    Tibshirani 1993, chapter 13, with the resampling by clusters of Davison and Hinkley 1997,
    section 3.8; seeded, so that the same pairs give the same interval.

    Args:
        values: One a pair.
        prompts: What each of them was drawn from.

    Returns:
        Low and high; not a number with fewer than two such values.
    """
    known = _known(values)
    if len(known) < 2:
        return float("nan"), float("nan")
    of = pd.Series(list(prompts), index=values.index).loc[known.index]
    grouped = known.groupby(of.values)
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
        low, high = interval(table[name], table["prompt"])
        rows[name] = counts | spread(table[name], identical) | {"low": low, "high": high}
        measured = floor is not None and name in floor
        rows[name]["floor"] = worst(floor[name], name) if measured else float("nan")
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("metric")


def worst(values: pd.Series, metric: str) -> float:
    """The value that is farthest from identical; not a number where there is none."""
    known = values.dropna().to_numpy(float)
    return float(known[KNOWN[metric].farness(known).argmax()]) if known.size else float("nan")


def typical(values: pd.Series, metric: str) -> float:
    """The median by which candidates are ordered; not a number where there is no value.

    Of a metric that lies on both sides of its value for identical inputs the median of the
    distances from that: one pair above and one below would have a median of none.
    """
    return _quantile(_known(_placed(values, metric)).to_numpy(), 0.5)


def paired_effect(first: pd.DataFrame, second: pd.DataFrame, metric: str) -> dict[str, float]:
    """How much ``first`` differs from ``second`` on the same prompts and seeds.

    A pair that one of the two has identical and the other not is an infinite difference of PSNR,
    and one that both have identical a difference of 0: left out, they would speak against the
    candidate that has more of them. Infinite differences are the least or the largest of all, so
    that the median, which knows order alone, takes them as it takes any.

    Args:
        first: prompt, seed and the column ``metric``, as :meth:`Comparison.table` gives.
        second: The same of another candidate against the same reference.
        metric: A metric that both have. Of one that can be below its value for identical inputs,
            such as warping_error, the distances from that are what is subtracted.

    Returns:
        n (pairs in both); finite and infinite (of them, with such a difference); left_out (where
        one of the two has no number); median of ``first - second``, low and high of its interval as
        in :func:`interval`; larger (pairs where ``first`` has the larger value), equal, and closer
        (where ``first`` is closer to the reference).

    Raises:
        ComparisonRefused: no pair in common, or no such metric.
    """
    for table in (first, second):
        if metric not in table or metric not in KNOWN:
            known = ", ".join(name for name in KNOWN if name in table)
            raise ComparisonRefused(f"there is no metric {metric!r} here; there are {known}")
    both = first.merge(second, on=["prompt", "seed"], suffixes=("_1", "_2"))
    if both.empty:
        raise ComparisonRefused(
            "the two candidates share no prompt and seed; generate both with the same ones"
        )
    a, b = (_placed(both[f"{metric}_{i}"], metric) for i in (1, 2))
    with np.errstate(invalid="ignore"):
        difference = (a - b).mask(a == b, 0.0)  # infinity less infinity is no number
    low, high = interval(difference, both["prompt"])
    told = spread(difference)
    return {
        "n": len(both),
        **{name: told[name] for name in ("finite", "infinite", "left_out", "median")},
        "low": low,
        "high": high,
        "larger": int((a > b).sum()),
        "equal": int((a == b).sum()),
        "closer": int((KNOWN[metric].farness(a) < KNOWN[metric].farness(b)).sum()),
    }


def _placed(values: pd.Series, metric: str) -> pd.Series:
    """As floats; the distances from identical of a metric that lies on both sides of it."""
    known = KNOWN[metric]
    return known.farness(values.astype(float)) if known.signed else values.astype(float)


def _known(values: pd.Series) -> pd.Series:
    return values.astype(float).dropna()


def _quantile(values: np.ndarray, at: float) -> float:
    """Linear between neighbours, as NumPy's; an infinity is taken as a number beyond all others."""
    if not values.size:
        return float("nan")
    if np.isfinite(values).all():
        return float(np.quantile(values, at))
    ordered, place = np.sort(values), at * (len(values) - 1)
    below, above = ordered[int(place)], ordered[int(np.ceil(place))]
    return float(_between(below, above, place % 1))


def _between(below: Any, above: Any, part: Any) -> Any:
    """``below + part (above - below)``, infinities standing for plus and minus one large number.

    So halfway from minus to plus infinity is 0: as many pairs speak for one side as for the other.
    """
    low, high = (np.where(np.isinf(edge), np.sign(edge), 0.0) for edge in (below, above))
    side = low * (1 - part) + high * part
    with np.errstate(invalid="ignore"):
        linear = np.where(np.equal(part, 0), below, below + (above - below) * part)
    return np.where(side == 0, np.where(np.isinf(below), 0.0, linear), np.copysign(np.inf, side))


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
    return _medians(drawn.reshape(RESAMPLES, -1))


def _medians(rows: np.ndarray) -> np.ndarray:
    """Of each row; NaN holds the place of no value. Each has one at least."""
    ordered = np.sort(rows, axis=1)  # NaN comes last
    place = ((~np.isnan(ordered)).sum(axis=1) - 1) / 2
    below, above = (
        np.take_along_axis(ordered, edge(place).astype(int)[:, None], axis=1)[:, 0]
        for edge in (np.floor, np.ceil)
    )
    return _between(below, above, place % 1)
