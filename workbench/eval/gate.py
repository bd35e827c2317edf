"""Pass or fail over a population, with the pairs that fail."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from workbench.errors import ComparisonRefused
from workbench.eval.metric_table import Metric
from workbench.eval.temporal_metrics import KNOWN


@dataclass(frozen=True, kw_only=True, eq=False)
class Gate:
    """What :meth:`Comparison.gate` found; true when passed."""

    passed: bool
    allowed: int
    """Pairs that may fail each limit: ``floor(quantile * n)``."""
    limits: Mapping[str, float]
    failing: pd.DataFrame = field(repr=False)
    """prompt, seed, metric, value, limit of every pair that fails one, the worst first."""
    n: int

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        counts = self.failing["metric"].value_counts()
        parts = [
            f"{KNOWN[name].title} {_beyond(KNOWN[name], limit)} in "
            f"{counts.get(name, 0)} of {self.n} pairs"
            for name, limit in self.limits.items()
        ]
        verdict = "pass" if self.passed else "fail"
        return f"{verdict}: {'; '.join(parts)}; {self.allowed} may fail"


def gate(
    table: pd.DataFrame, limits: Mapping[str, float], quantile: float, missing: Mapping[str, str]
) -> Gate:
    """Judge the rows of a comparison; see :meth:`Comparison.gate`. NaN fails every limit."""
    if not 0 <= quantile < 1:
        raise ComparisonRefused(
            f"quantile={quantile!r}: give the share of pairs that may fail, from 0 to below 1"
        )
    if not limits:
        raise ComparisonRefused("the gate has no limit; give one, such as psnr_db=30")
    for name in limits:
        if name not in table or name not in KNOWN:
            raise ComparisonRefused(_unknown(name, table, missing))
        if KNOWN[name].signed and limits[name] < 0:
            raise ComparisonRefused(
                f"{name}={limits[name]:g}: it is judged by its distance from "
                f"{KNOWN[name].identical:g}; give the largest distance, 0 or more"
            )
    failing = pd.concat([_failing(table, name, limit) for name, limit in limits.items()])
    allowed = math.floor(quantile * len(table) + 1e-9)  # 0.1 of 30 is 3, whatever floats say
    counts = failing["metric"].value_counts()
    return Gate(
        passed=bool((counts <= allowed).all()),
        allowed=allowed,
        limits=dict(limits),
        failing=failing.reset_index(drop=True),
        n=len(table),
    )


def _failing(table: pd.DataFrame, name: str, limit: float) -> pd.DataFrame:
    values, metric = table[name].astype(float), KNOWN[name]
    most = limit if metric.signed else metric.farness(limit)
    bad = ~(metric.farness(values) <= most)  # true for NaN
    rows = table.loc[bad, ["prompt", "seed"]].assign(metric=name, value=values[bad], limit=limit)
    return rows.sort_values(
        "value", key=metric.farness, ascending=False, na_position="first", kind="stable"
    )


def _beyond(metric: Metric, limit: float) -> str:
    if metric.signed:
        return f"farther than {limit:g} from {metric.identical:g}"
    return f"{'below' if metric.better == 'higher' else 'above'} {limit:g}"


def _unknown(name: str, table: pd.DataFrame, missing: Mapping[str, str]) -> str:
    if name in missing:
        return f"{name} was not computed: {missing[name]}"
    known = ", ".join(one for one in KNOWN if one in table)
    return f"there is no metric {name!r} in this comparison; it has {known}"
