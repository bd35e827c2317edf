"""A launch under a workload, measured: warm and cold latency, throughput, stages, memory."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from workbench import store
from workbench.audits import Audit
from workbench.errors import LaunchFailed, SpecError
from workbench.provenance import gpu_bytes_used
from workbench.serve.requests import asked_load
from workbench.specs import LaunchSpec, Sampling, Workload
from workbench.speed import KIND, Benchmark, BenchmarkSpec, LoadResult
from workbench.zoo.models import has_random_weights
from workbench.zoo.weights import weight_bytes

WARMUPS = 2


@runtime_checkable
class Launched(Protocol):
    """An engine or a server."""

    spec: LaunchSpec
    folder: Path
    audit: Audit
    load_s: float
    drawn: set[Sampling]
    device_used_before: list[int]

    def load(self, workload: Workload, *, images: Any = None) -> LoadResult:
        """Keep requests in flight until all are answered."""

    def call_workers(self, method: str, *arguments: Any) -> Any:
        """Run a method of the worker extension on every rank; the answer of rank 0."""


def benchmark(
    launched: Launched,
    workload: Workload,
    *,
    images: Any = None,
    warmups: int | None = None,
    stages: bool = True,
    repeat: int = 0,
    force: bool = False,
) -> Benchmark:
    """Measure an engine or a server under a workload, after warm-ups at the same size.

    Latency is that of a workload of concurrency 1; throughput wants a concurrency, and as many
    requests as fill it several times. Nothing is recorded beside it, and the components are timed
    in a run of its own, since that waits for the device around each of them.

    Args:
        launched: What :func:`workbench.launch` or :func:`workbench.serve` gave.
        workload: Prompts, seeds, sampling, concurrency, number of requests.
        images: First frames of videos, as :meth:`Engine.generate` takes them; the workload that is
            stored names them by digest.
        warmups: Requests before the first that counts; None takes 2, and at least the concurrency,
            so that every batch size has run.
        stages: Whether to time the components, with two more requests: on GPUs the first of them
            warms up what the hooks change.
        repeat: Counts independent runs of the same benchmark.
        force: Measure again what is in the store.

    Raises:
        SpecError: nothing launched, or a contradictory workload or images; before anything is sent.
        LaunchFailed: the engine died, or no request was answered.
    """
    _check_launched(launched)
    full, found = asked_load(launched.spec, launched.folder, workload, images)
    drawn = [image.picture for image in found.values()] or None  # scaled, and said, already
    before = max(WARMUPS, full.concurrency) if warmups is None else warmups
    spec = BenchmarkSpec(
        launch=launched.spec, workload=full, warmups=before, stages=stages, repeat=repeat
    )
    if store.has(KIND, spec) and not force:
        return Benchmark.load(store.open_complete(KIND, spec))
    folder = store.prepare(KIND, spec, force=force)
    content = {
        **_measured(launched, spec, drawn),
        "stages_s": _stages(launched, full, drawn) if stages else {},
        "audit": launched.audit.to_json(),
        "load_s": launched.load_s,
        "checkpoint_bytes": weight_bytes(launched.folder),
        "random_weights": has_random_weights(launched.folder),
    }
    store.commit(folder, spec, content)
    return Benchmark.load(folder)


def _check_launched(launched: Any) -> None:
    if not isinstance(launched, Launched):
        raise SpecError(
            f"launched={launched!r} is a {type(launched).__name__}; give what workbench.launch or "
            "workbench.serve returned"
        )


def _measured(launched: Launched, spec: BenchmarkSpec, drawn: Any) -> dict[str, Any]:
    """Warm-ups, then the load under the meter: requests, batches, memory of each rank."""
    load = spec.workload
    cold = load.sampling not in launched.drawn
    warm = ()
    if spec.warmups:
        warm = launched.load(load.but(requests=spec.warmups), images=drawn).rows
    launched.call_workers("workbench_meter")
    result = launched.load(load, images=drawn)
    if not result.completed:
        raise LaunchFailed(f"no request was answered; the first failed with {result.rows[0].error}")
    meter = launched.call_workers("workbench_read_meter")
    used = _device_used(launched, meter["memory"])
    return {
        "rows": [asdict(row) for row in result.rows],
        "warmups": [asdict(row) for row in warm],
        "cold_s": warm[0].latency_s if cold and warm and not warm[0].error else None,
        "batches": meter["batches"],
        "memory": [
            {"rank": rank, **facts, "device_used": used[rank] if used else None}
            for rank, facts in enumerate(meter["memory"])
        ],
    }


def _device_used(launched: Launched, ranks: list[Any]) -> list[int]:
    """Of each rank's device, which is the one of the same number; empty on CPU."""
    now = gpu_bytes_used()[: len(ranks)]
    return [max(0, after - b) for after, b in zip(now, launched.device_used_before, strict=False)]


def _stages(launched: Launched, workload: Workload, images: Any) -> dict[str, float]:
    one = workload.but(concurrency=1, requests=1)
    for _ in range(2):
        launched.call_workers("workbench_meter", True)
        (row,) = launched.load(one, images=images).rows
        if row.error:
            raise LaunchFailed(f"the request whose components are timed failed with {row.error}")
        timed = launched.call_workers("workbench_read_meter")["stages_s"]
    return {**timed, "rest": row.latency_s - sum(timed.values())}
