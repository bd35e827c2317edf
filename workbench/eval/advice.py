"""What to run, in words, drawn from benchmarks: for one stream, for a batch, for little memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pandas as pd

from workbench.eval.speed import conditions, device, layout, speedup
from workbench.eval.speed_labels import waits
from workbench.eval.speed_notes import queue_wait_s, speed_notes
from workbench.eval.speed_spread import CERTAIN, certain
from workbench.eval.units import memory_unit
from workbench.schemes import SIXTEEN_BIT
from workbench.speed import Benchmark

EMBEDDED = "embedded:"
ALIKE = 0.01
"""Peaks this close, relative to the smaller, are not told apart: each is that of one launch."""
_PLAIN = {*SIXTEEN_BIT, "FP16", "FP32"}
Runs = Sequence[Benchmark]


def advice(benchmarks: Iterable[Benchmark]) -> str:
    """A recommendation for each regime that was measured, and what it rests on.

    Runs are compared only where :func:`workbench.speedup` allows it, so each set of conditions has
    a paragraph of its own. A single stream is concurrency 1, a batch the highest concurrency that
    two precisions share. Ratios have 95 % intervals; the data do not decide where one holds 1, or
    where there are too few rounds for one (:data:`workbench.eval.speed_spread.CERTAIN`).

    Args:
        benchmarks: Of one or more precisions, layouts and concurrencies.

    Returns:
        One line a sentence, an empty line between the paragraphs; says so where nothing can be
        compared.
    """
    groups: list[list[Benchmark]] = []
    for one in benchmarks:
        like = next((group for group in groups if _alike(group[0], one)), None)
        if like is None:
            groups.append([one])
        else:
            like.append(one)
    return (
        "\n\n".join("\n".join(_paragraph(group)) for group in groups) or "No benchmarks: no advice."
    )


def _alike(one: Benchmark, other: Benchmark) -> bool:
    ours, theirs = conditions(one), conditions(other)
    left = {"concurrency"}
    if one.spec.launch.stored or other.spec.launch.stored:
        left.add("model")
    return all(ours[name] == theirs[name] for name in ours if name not in left)


def _paragraph(runs: Runs) -> Iterator[str]:
    timed = [one for one in runs if not one.audit.reference_kernels]
    sizes = sorted({one.spec.workload.concurrency for one in runs})
    yield rests_on(runs)
    if len({one.precision for one in runs}) == 1:
        yield f"Only {runs[0].precision} was measured so: there is nothing to compare it with."
    else:
        alone = _at(timed, 1)
        if len(alone) > 1:
            yield f"Single stream: {_fastest(alone, 'latency', _seconds)}"
        most = max((n for n in sizes if n > 1 and len(_at(timed, n)) > 1), default=None)
        if most is not None:
            best = _fastest(_at(timed, most), "throughput", _rate)
            yield f"Batch, {most} requests in flight: {best}"
        least = min((n for n in sizes if len(_at(runs, n)) > 1), default=None)
        if least is None:
            yield "No two of these runs had equally many requests in flight: nothing is compared."
        else:
            yield f"Memory-bound, {least} in flight: {_smallest(_at(runs, least))}"
    yield from _cautions(runs)


def _at(runs: Runs, concurrency: int) -> list[Benchmark]:
    return [one for one in runs if one.spec.workload.concurrency == concurrency]


def _seconds(one: Benchmark) -> str:
    return f"draws a {one.result.drawn.removesuffix('s')} in {one.result.latency_s['median']:.3g} s"


def _rate(one: Benchmark) -> str:
    return f"draws {one.result.pictures_per_s:.3g} {one.result.drawn} a second"


def _fastest(runs: Runs, measure: str, told: Callable[[Benchmark], str]) -> str:
    """Which of them is the fastest, against 16 bit, and which others are not told apart from it."""
    best = max(runs, key=lambda one: _ratio(runs[0], one, measure)[0])
    others = sorted(
        (one for one in runs if one is not best), key=lambda one: -_ratio(best, one, measure)[0]
    )
    base = _baseline(runs)
    against = others[0] if base is None or base is best else base
    said = f"{_laid_out(best, runs)} {told(best)}, {_ratio_said(against, best, runs, measure)}"
    ahead = [one for one in others if _ratio(one, best, measure)[1] > 1]
    tied = [one for one in others if one not in ahead]
    open_ = [one for one in ahead if not certain(best, one)]
    rest = f"; it is ahead of {_names(open_, runs)} in every round" if open_ else ""
    if tied:
        between = f"{_name(best, runs)} and {_names(tied, runs)}"
        return f"the data do not decide between {between}. As measured, {said}{rest}."
    return f"too few rounds for certainty. As measured, {said}{rest}." if open_ else f"{said}."


def _smallest(runs: Runs) -> str:
    """Which of them keeps the least memory, and what that costs in latency."""
    best, *others = sorted(runs, key=lambda one: one.peak_bytes)
    base = _baseline(runs)
    against = others[0] if base is None or base is best else base
    unit, size = memory_unit(best.peak_bytes)
    share = f"{best.peak_bytes / against.peak_bytes:.2f} of {_name(against, runs)}'s"
    said = (
        f"{_laid_out(best, runs)} has the smallest reserved peak, {best.peak_bytes / size:.4g} "
        f"{unit}, {share} (one launch each, so without an interval)"
    )
    close = [x for x in others if x.peak_bytes <= best.peak_bytes * (1 + ALIKE)]
    if close:
        between = f"{_name(best, runs)} and {_names(close, runs)}"
        said = f"the data do not decide between {between}. As measured, {said}"
    if any(one.audit.reference_kernels for one in (best, against)):
        return f"{said}; what it costs in latency was not measured: reference kernels ran."
    return f"{said}; its latency: {_ratio_said(against, best, runs, 'latency')}."


def _ratio_said(against: Benchmark, best: Benchmark, runs: Runs, measure: str) -> str:
    found = speedup(against, best)
    value, low, high = (found[f"{measure}{end}"] for end in ("", "_low", "_high"))
    within = f"{low:.2f} to {high:.2f}, {found['spread']}" if low == low else found["spread"]
    n = f"n = {len(best.result.completed)} and {len(against.result.completed)} requests"
    return f"{value:.2f} times as fast as {_name(against, runs)} ({within}; {n})"


def _ratio(reference: Benchmark, candidate: Benchmark, measure: str) -> tuple[float, float, float]:
    found = speedup(reference, candidate)
    return found[measure], found[f"{measure}_low"], found[f"{measure}_high"]


def _baseline(runs: Runs) -> Benchmark | None:
    return next((one for one in runs if one.precision in _PLAIN), None)


def _name(one: Benchmark, runs: Runs) -> str:
    """Its precision, and the start of its key where another of the runs has the same."""
    twice = sum(other.precision == one.precision for other in runs) > 1
    return f"{one.precision} (#{one.key[:4]})" if twice else one.precision


def _names(some: Runs, runs: Runs) -> str:
    return ", ".join(_name(one, runs) for one in some)


def _laid_out(one: Benchmark, runs: Runs) -> str:
    split = one.spec.launch.parallelism
    return f"{_name(one, runs)} {'on' if split.world_size == 1 else 'with'} {layout(split)}"


def rests_on(runs: Runs) -> str:
    """The conditions of runs that share them all but the requests in flight, as one sentence."""
    one, drawn = runs[0], runs[0].spec.workload.sampling
    launch = one.spec.launch
    size = f"{drawn.width} x {drawn.height} pixels" if drawn.width else "the model's own size"
    frames = f", {drawn.num_frames} frames" if drawn.num_frames else ""
    sizes = ", ".join(map(str, sorted({run.spec.workload.concurrency for run in runs})))
    world = launch.parallelism.world_size
    return (
        f"Rests on {launch.model.source}, {size}{frames}, {drawn.num_inference_steps} steps, on "
        f"{f'{world} x ' if world > 1 else ''}{device(one)} ({layout(launch.parallelism)}), "
        f"attention {one.audit.attention_backend}, "
        f"{'eager' if launch.enforce_eager else 'compiled'}, at most {launch.max_num_seqs} drawn "
        f"together, {sizes} in flight."
    )


def _named(one: Benchmark, runs: Runs) -> str:
    return _name(one, _at(runs, one.spec.workload.concurrency))


def _cautions(runs: Runs) -> Iterator[str]:
    timed = [one for one in runs if not one.audit.reference_kernels]
    marked = dict.fromkeys(one.precision for one in runs if one.audit.reference_kernels)
    if marked:
        yield (
            f"{', '.join(marked)} ran on reference kernels, whose times mean nothing, and is left "
            "out of the speeds."
        )
    if failed := sum(len(one.result.failed) for one in runs):
        yield f"Requests that failed and are in no number: {failed}."
    yield from _beside(runs, timed)
    if any(one.random_weights for one in runs):
        yield "The weights are random: speed and memory only, fidelity is not judged."
    if runs[0].audit.platform == "cpu":
        yield "The device is a CPU: this says nothing about a GPU."
    if runs[0].spec.launch.model.source.startswith(EMBEDDED):
        yield "The model is the embedded one, a toy: no large model need behave so."


def _beside(runs: Runs, timed: Runs) -> Iterator[str]:
    """What the times hold, and how far they may be compared."""
    if alone := waits(pd.DataFrame(_waited(runs))):
        yield f"{alone[0].upper()}{alone[1:]}."
    for note in speed_notes([(_named(one, runs), one) for one in runs]):
        yield f"{note[0].upper()}{note[1:]}."
    if len(runs) > 1 and not certain(*timed):
        yield (
            f"Fewer than {CERTAIN} rounds of requests have a range and no 95 % interval: they "
            "decide nothing for certain."
        )


def _waited(runs: Runs) -> list[dict[str, object]]:
    return [
        {
            "precision": _named(one, runs),
            "concurrency": one.spec.workload.concurrency,
            "queue_wait_s": queue_wait_s(one),
        }
        for one in runs
    ]
