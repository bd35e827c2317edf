"""Cards of speed: benchmarks written as JSON, several cards made one, runs read back.

A card holds ``rows`` (of ``workbench.speed_table``), ``runs`` (spec, every request, batches,
memory, stages, and how each was made), ``kernel_times`` where they were asked for, and
``provenance`` of its first run. Older cards have one provenance for all runs, and fewer columns a
request.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from workbench import store
from workbench.audits import Audit, LayerCensus
from workbench.errors import StoreError
from workbench.eval.speed import layout, speed_table
from workbench.speed import Benchmark, BenchmarkSpec, LoadResult, RankMemory, RequestRow
from workbench.zoo.models import has_random_weights

Card = dict[str, Any]
REQUEST = ("index", "seed", "sent_s", "received_s", "queue_wait_s", "stage_durations_s", "bytes",
           "pictures", "sha256", "error")  # fmt: skip
KEPT = ("spec", "cold_s", "batches", "memory", "stages_s", "load_s", "checkpoint_bytes",
        "random_weights", "provenance")  # fmt: skip
LONGEST = 12  # kernels that a card names


def card(
    done: Sequence[Benchmark], planned: Mapping[str, Any], kernel_times: Sequence[Card] = ()
) -> Card:
    """All benchmarks of one call.

    Args:
        done: One or more.
        planned: Key of a benchmark -> bytes by component and rank, as the planner estimates them.
        kernel_times: Of :func:`kernels`.
    """
    return {
        "schema_version": 1,
        "rows": json.loads(speed_table(done).to_json(orient="records")),
        "runs": [
            {**_short(store.read(one.path)), "key": one.key, "planned_bytes": planned[one.key]}
            for one in done
        ],
        "kernel_times": list(kernel_times),
        "provenance": done[0].provenance,
    }


def kernels(engine: Any, times: pd.DataFrame, steps: int) -> Card:
    """What ``engine.kernel_times`` gave, as a card holds it: shares by kind, and the longest."""
    spec = engine.spec
    shares = times.groupby("kind")["share"].sum().sort_values(ascending=False)
    return {
        "precision": spec.precision,
        "layout": layout(spec.parallelism),
        "compiled": not spec.enforce_eager,
        "attention_backend": engine.audit.attention_backend,
        "num_inference_steps": steps,
        "random_weights": has_random_weights(engine.folder),
        "reference_kernels": engine.audit.reference_kernels,
        "wall_s": times.attrs["wall_s"],
        "idle": times.attrs["idle"],
        "shares": {str(kind): float(share) for kind, share in shares.items()},
        "longest": json.loads(times.head(LONGEST).to_json(orient="records")),
    }


def benchmark(run: Card, provenance: Card) -> Benchmark:
    """A run of a card; its audit names no layers.

    Args:
        run: One of ``runs``.
        provenance: Of the card, for runs that have none of their own.
    """
    spec = BenchmarkSpec(**run["spec"])
    workload, precision = spec.workload, spec.launch.precision
    facts = {"prompt": workload.prompts.prompts[0], "stage_durations_s": {}, "pictures": 1}

    def rows(name: str) -> tuple[RequestRow, ...]:
        each = (dict(zip(run["columns"], row, strict=True)) for row in run[name])
        return tuple(RequestRow(**{**facts, **row}) for row in each)

    return Benchmark(
        path=Path(run["key"]),
        spec=spec,
        audit=_audit(run, precision),
        result=LoadResult(workload=workload, precision=precision, rows=rows("rows")),
        warmups=rows("warmups"),
        batches={int(size): number for size, number in run["batches"].items()},
        memory=tuple(RankMemory(**rank) for rank in run["memory"]),
        **{name: run[name] for name in KEPT if name in _AS_THEY_ARE},
        provenance=run.get("provenance", provenance),
    )


def merged(cards: Iterable[Card]) -> Card:
    """One card of several: rows and runs one after the other, each run with its own provenance.

    A local folder of a model is called by its name; a run that is in two cards is taken once.

    Raises:
        StoreError: a run is in two cards with other numbers.
    """
    rows: dict[str, Card] = {}
    runs: dict[str, Card] = {}
    found: list[Card] = []
    every = list(cards)
    for one in every:
        for row, run in zip(one["rows"], one["runs"], strict=True):
            own = {**run, "provenance": run.get("provenance", one["provenance"])}
            if runs.setdefault(run["key"], own)["rows"] != run["rows"]:
                raise StoreError(
                    f"{run['key']} is in two cards with other requests; leave one of the two out"
                )
            rows.setdefault(run["key"], row)
        found += one.get("kernel_times", [])
    names = {source: _public(source, run) for run in runs.values() for source in [_source(run)]}
    whole = {
        "schema_version": 1,
        "rows": list(rows.values()),
        "runs": list(runs.values()),
        "kernel_times": found,
        "provenance": every[0]["provenance"],
    }
    return _renamed(whole, names)


def _short(manifest: Card) -> Card:
    """Without the audit of every layer, and with each request as a list of values."""
    audit = Audit.from_json(manifest["audit"])
    requests = {
        name: [[row[column] for column in REQUEST] for row in manifest[name]]
        for name in ("rows", "warmups")
    }
    return {
        **{name: manifest[name] for name in KEPT},
        **requests,
        "columns": REQUEST,
        "verdict": audit.verdict,
        "kernels": audit.kernels,
        "coverage": audit.coverage,
        "attention_backend": audit.attention_backend,
        "platform": audit.platform,
        "world_sizes": audit.world_sizes,
        "reference_kernels": audit.reference_kernels,
    }


def _audit(run: Card, precision: str) -> Audit:
    return Audit(
        requested=precision,
        verdict=run["verdict"],
        layers=(_REFERENCE,) if run.get("reference_kernels") else (),
        platform=run.get("platform", "cuda"),
        attention_backend=run["attention_backend"],
        world_sizes=run.get("world_sizes", {"world": len(run["memory"])}),
        weight_bytes=run["memory"][0]["weights"],
    )


def _source(run: Card) -> str:
    return run["spec"]["launch"]["model"]["source"]


def _public(source: str, run: Card) -> str:
    """A local folder by its name, of random weights as their shape; another name as it is."""
    if not Path(source).is_absolute():
        return source
    return f"{Path(source).name} shape" if run["random_weights"] else Path(source).name


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(one, names) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_renamed(one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) else value


_AS_THEY_ARE = {"cold_s", "stages_s", "load_s", "checkpoint_bytes", "random_weights"}
_REFERENCE = LayerCensus(
    name="transformer", layer="", method="", kernel="", weight_dtype="", weight_bytes=0,
    parameters=0, quantized=True, reference_kernel=True,
)  # fmt: skip
"""Stands for the layers that a card leaves out, where one of them ran on a reference kernel."""
