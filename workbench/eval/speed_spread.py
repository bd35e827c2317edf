"""How sure a measured speed is: a 95 % interval of enough rounds of requests, else their range."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from workbench.eval.population import CONFIDENCE, RESAMPLES, SEED
from workbench.speed import Benchmark

CERTAIN = 6
"""Fewest rounds of requests of which a 95 % interval is told.

The smallest and the largest of n independent values enclose their median with probability
1 - 2 * 0.5**n, whatever the distribution: 96.9 % of 6, 93.75 % of 5, 75 % of 3, 50 % of 2
(order-statistics interval, David and Nagaraja 2003, Order Statistics, section 7.1). No resampling
of fewer values can do better, so below 6 the smallest and the largest are given, and called that.
"""
TAILS = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
Reduced = Callable[..., np.ndarray]


def rounds(one: Benchmark) -> int:
    """Values that are independent: requests that are in flight together end together."""
    return len(_rounds(one))


def certain(*runs: Benchmark) -> bool:
    """Whether each of them has enough rounds for a 95 % interval."""
    return all(rounds(one) >= CERTAIN for one in runs)


def spread_name(number: int) -> str:
    """What the low and high of so many rounds are: ``95 % interval`` or ``range of 3 rounds``."""
    if number >= CERTAIN:
        return f"{CONFIDENCE:.0%} interval".replace("%", " %")
    return f"range of {number} rounds" if number > 1 else "no range from one round"


def medians(one: Benchmark) -> np.ndarray:
    """Median latency of each bootstrap resample, float64 [RESAMPLES]; see :func:`throughputs`."""
    return np.median(_resampled(one), axis=1)


def throughputs(one: Benchmark) -> np.ndarray:
    """Pictures a second of each bootstrap resample, float64 [RESAMPLES].

    With N requests in flight at all times throughput is N over the mean latency (Little 1961), so
    the measured one moves as the mean latency of a resample does, inversely. Not a number with a
    single round of requests, from which no spread can be seen.
    """
    return _little(one) / _resampled(one).mean(axis=1)


def latency_ends(*runs: Benchmark) -> tuple[float, float]:
    """Low and high of a run's median latency, or of the first one's over the second one's.

    The percentile bootstrap interval where every run has :data:`CERTAIN` rounds; else the smallest
    and the largest, round against round; not a number where one of them has a single round.
    """
    return _ends(medians, lambda one: np.array([np.median(each) for each in _rounds(one)]), runs)


def throughput_ends(*runs: Benchmark) -> tuple[float, float]:
    """The same of pictures a second."""
    return _ends(
        throughputs,
        lambda one: _little(one) / np.array([each.mean() for each in _rounds(one)]),
        runs,
    )


def _ends(
    resampled: Reduced, by_round: Reduced, runs: tuple[Benchmark, ...]
) -> tuple[float, float]:
    if certain(*runs):
        first, *other = map(resampled, runs)
        low, high = np.quantile(first / other[0] if other else first, TAILS)
        return float(low), float(high)
    if any(rounds(one) < 2 for one in runs):
        return float("nan"), float("nan")
    first, *other = map(by_round, runs)
    under = other[0] if other else np.ones(1)
    return float(first.min() / under.max()), float(first.max() / under.min())


def _little(one: Benchmark) -> float:
    return one.result.pictures_per_s * _latencies(one).mean()


def _rounds(one: Benchmark) -> list[np.ndarray]:
    """Latencies of the requests that were in flight together."""
    values, size = _latencies(one), one.spec.workload.concurrency
    return [values[start : start + size] for start in range(0, len(values), size)]


def _resampled(one: Benchmark) -> np.ndarray:
    """Latencies [RESAMPLES, requests], drawn by rounds.

    Each benchmark has its own draws: with common ones, two runs that drift alike by chance would
    show a ratio without any spread.
    """
    by_round = _rounds(one)
    if len(by_round) < 2:
        return np.full((RESAMPLES, 1), np.nan)
    random = np.random.default_rng([SEED, zlib.crc32(one.key.encode())])
    draws = random.integers(len(by_round), size=(RESAMPLES, len(by_round)))
    width = min(sum(map(len, by_round)), len(by_round) * min(map(len, by_round)))
    return np.stack([np.concatenate([by_round[i] for i in draw])[:width] for draw in draws])


def _latencies(one: Benchmark) -> np.ndarray:
    return np.array([row.latency_s for row in one.result.completed])
