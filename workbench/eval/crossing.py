"""From how many requests in flight one precision is ahead of another, and how sure that is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from workbench.errors import ComparisonRefused
from workbench.eval.population import CONFIDENCE
from workbench.eval.speed import layout, refuse_unlike
from workbench.eval.speed_notes import speed_notes
from workbench.eval.speed_spread import CERTAIN, TAILS, rounds, throughput_ends, throughputs
from workbench.speed import Benchmark


@dataclass(frozen=True, kw_only=True, eq=False)
class Crossing:
    """Throughput of a candidate over a reference's, by concurrency. Made by :func:`crossing`."""

    reference: str
    """What the two are called: precision, and layout where that differs."""
    candidate: str
    table: pd.DataFrame = field(repr=False)
    """One row a concurrency: concurrency, ratio (the candidate's pictures a second over the
    reference's), rounds (of requests, the fewer of both sides), low and high (its 95 % interval; of
    fewer than 6 rounds the range, round against round; not a number with one)."""
    at: float | None
    """Requests in flight at which the ratio first passes 1; None if it never does."""
    low: float | None
    """95 % interval of ``at`` over the resamples that cross; None if none does."""
    high: float | None
    shares: dict[str, float]
    """Of the resamples: ``crosses``, ``ahead`` and ``behind`` at every concurrency, ``falls``
    behind as load grows. They add up to 1; empty where a point has fewer than 6 rounds."""
    cautions: tuple[str, ...] = ()
    """What must be said beside it: random weights, reference kernels, other batches or versions."""

    @property
    def decided(self) -> bool:
        """Whether 95 % of the resamples say what the measured ratios say."""
        return self.shares.get(_kind(self.table["ratio"].to_numpy()), 0.0) >= CONFIDENCE

    def __str__(self) -> str:
        kind = _kind(self.table["ratio"].to_numpy())
        if not self.shares:
            said = f"not decided: as measured {self._said(kind)}, but {self._few()}{self._sure()}"
        elif self.decided:
            least, share = self.table["rounds"].min(), self.shares[kind]
            said = (
                f"{self._said(kind)}; {share:.0%} of the resamples agree, of {least} rounds or more"
            )
        else:
            said = f"not decided: as measured {self._said(kind)}, but {self._doubt()}{self._sure()}"
        return said + (f" ({'; '.join(self.cautions)})" if self.cautions else "")

    def _said(self, kind: str) -> str:
        one, other, span = self.candidate, self.reference, _span(self.table["concurrency"])
        if kind == "crosses":
            known = self.low is not None
            within = f" [95 % interval {self.low:.1f} to {self.high:.1f}]" if known else ""
            return f"{one} overtakes {other} at {self.at:.1f} requests in flight{within}"
        if kind == "ahead":
            return f"{one} is ahead of {other} at every concurrency measured ({span})"
        if kind == "behind":
            return f"{one} never overtakes {other} at the concurrencies measured ({span})"
        ahead = self.table.loc[self.table["ratio"] >= 1, "concurrency"]
        return f"{one} is ahead of {other} at {_listed(ahead)} in flight and behind above that"

    def _doubt(self) -> str:
        names = {
            "crosses": "cross",
            "ahead": "are ahead throughout",
            "behind": "are behind throughout",
            "falls": "fall behind as load grows",
        }
        said = [f"{s:.0%} {names[kind]}" for kind, s in self.shares.items() if s > 0]
        return f"of the resamples {', '.join(said)}"

    def _few(self) -> str:
        rows = self.table[self.table["rounds"] < CERTAIN]
        ran = [f"{row.rounds} at {row.concurrency} in flight" for row in rows.itertuples()]
        return f"a 95 % interval takes {CERTAIN} rounds of requests, and there were {_listed(ran)}"

    def _sure(self) -> str:
        """Where the two are told apart: by the interval, or as far as the few rounds show."""
        enough = self.table["rounds"] >= CERTAIN
        told = [
            f"{word} {how} at {_listed(rows)}"
            for how, which in (("for certain", enough), ("in every round", ~enough))
            for word, apart in (
                ("ahead", self.table["low"] > 1),
                ("behind", self.table["high"] < 1),
            )
            if len(rows := self.table.loc[which & apart, "concurrency"])
        ]
        return f"; {'; '.join(told) or 'nowhere told apart'}"


def crossing(
    reference: Sequence[Benchmark], candidate: Sequence[Benchmark], across: Collection[str] = ()
) -> Crossing:
    """Where a candidate's throughput overtakes a reference's as more requests are in flight.

    Between two measured concurrencies the ratio is taken as linear in the logarithm of the
    concurrency. The interval is that of the same reading of each bootstrap resample, where every
    concurrency has at least :data:`workbench.eval.speed_spread.CERTAIN` rounds of requests.

    Args:
        reference: Benchmarks of one precision, one a concurrency.
        candidate: The same of another; concurrencies that only one of both has are left out.
        across: What else may differ between the two: names of
            :data:`workbench.eval.speed.MAY_DIFFER`.

    Raises:
        ComparisonRefused: what :func:`workbench.speedup` refuses, of any two runs at the same
            concurrency, or of the runs of one side; two runs at one concurrency; none in common.
    """
    ours, theirs = _by_concurrency(reference, across), _by_concurrency(candidate, across)
    shared = sorted(ours.keys() & theirs.keys())
    if not shared:
        raise ComparisonRefused(
            f"no concurrency is on both sides: {_listed(sorted(ours))} against "
            f"{_listed(sorted(theirs))}; measure both at the same ones"
        )
    for size in shared:
        refuse_unlike(ours[size], theirs[size], across)
    ratio = np.array(
        [theirs[n].result.pictures_per_s / ours[n].result.pictures_per_s for n in shared]
    )
    pairs = [(ours[n], theirs[n]) for n in shared]
    low, high = np.array([throughput_ends(b, a) for a, b in pairs]).T
    fewest = [min(map(rounds, pair)) for pair in pairs]
    table = pd.DataFrame(
        {"concurrency": shared, "ratio": ratio, "rounds": fewest, "low": low, "high": high}
    )
    names = _names(*pairs[0])
    return Crossing(
        reference=names[0],
        candidate=names[1],
        table=table,
        at=_first(np.array(shared), ratio),
        cautions=tuple(_cautions(names, pairs)),
        **_resampled(table, pairs),
    )


def _by_concurrency(runs: Sequence[Benchmark], across: Collection[str]) -> dict[int, Benchmark]:
    """Concurrency -> run, of runs that are alike in all else."""
    found: dict[int, Benchmark] = {}
    for one in runs:
        size = one.spec.workload.concurrency
        if size in found:
            raise ComparisonRefused(
                f"two runs of {one.precision} at concurrency {size}, {found[size].key} and "
                f"{one.key}; give one of them"
            )
        if one.precision != runs[0].precision:
            raise ComparisonRefused(
                f"one side holds {runs[0].precision} and {one.precision}; give one precision a side"
            )
        refuse_unlike(runs[0], one, {*across, "concurrency"})
        found[size] = one
    return found


def _names(reference: Benchmark, candidate: Benchmark) -> tuple[str, str]:
    layouts = [layout(one.spec.launch.parallelism) for one in (reference, candidate)]
    names = reference.precision, candidate.precision
    if layouts[0] == layouts[1]:
        return names
    return f"{names[0]} with {layouts[0]}", f"{names[1]} with {layouts[1]}"


def _cautions(
    names: tuple[str, str], pairs: Sequence[tuple[Benchmark, Benchmark]]
) -> Iterator[str]:
    runs = [one for pair in pairs for one in pair]
    if any(one.random_weights for one in runs):
        yield "random weights"
    if any(one.audit.reference_kernels for one in runs):
        yield "reference kernels, whose times mean nothing"
    yield from speed_notes([named for pair in pairs for named in zip(names, pair, strict=True)])


def _first(sizes: np.ndarray, ratio: np.ndarray) -> float | None:
    """Where the ratio first comes from below 1 to 1 or more, linear in log2 of the concurrency."""
    upward = np.flatnonzero((ratio[:-1] < 1) & (ratio[1:] >= 1))
    if not upward.size:
        return None
    i = upward[0]
    part = (1 - ratio[i]) / (ratio[i + 1] - ratio[i])
    below, above = np.log2(sizes[i : i + 2])
    return float(2 ** (below + part * (above - below)))


def _kind(ratio: np.ndarray) -> str:
    ahead = ratio >= 1
    if (~ahead[:-1] & ahead[1:]).any():
        return "crosses"
    if ahead.all():
        return "ahead"
    return "falls" if ahead.any() else "behind"


def _resampled(table: pd.DataFrame, pairs: Sequence[tuple[Benchmark, Benchmark]]) -> dict:
    """``low``, ``high`` and ``shares`` of a crossing, where every point has enough rounds."""
    if table["rounds"].min() < CERTAIN:
        return {"low": None, "high": None, "shares": {}}
    drawn = np.stack([throughputs(b) / throughputs(a) for a, b in pairs], axis=1)
    sizes = table["concurrency"].to_numpy()
    kinds = [_kind(ratio) for ratio in drawn]
    places = [place for place in (_first(sizes, ratio) for ratio in drawn) if place is not None]
    low, high = np.quantile(places, TAILS) if places else (None, None)
    names = ("crosses", "ahead", "behind", "falls")
    return {
        "low": None if low is None else float(low),
        "high": None if high is None else float(high),
        "shares": {name: kinds.count(name) / len(kinds) for name in names},
    }


def _span(sizes: pd.Series) -> str:
    return f"{sizes.min()} to {sizes.max()}" if len(sizes) > 1 else f"{sizes.iloc[0]}"


def _listed(sizes: Sequence[int] | pd.Series) -> str:
    *before, last = map(str, sizes) if len(sizes) else ("none",)
    return f"{', '.join(before)} and {last}" if before else last
