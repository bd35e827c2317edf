"""What benchmarks are made of, as frames for the figures: requests, memory, stages, layouts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from workbench.eval.speed import SHORT, layout, speed_table, speedup
from workbench.eval.units import GIB
from workbench.specs import Parallelism
from workbench.speed import Benchmark

ABOVE = "above the weights"
"""What a run needs besides: activations, workspaces, what the allocator keeps."""
_CONDITIONS = [
    "model", "precision", "layout", "compiled", "attention_backend", "size", "num_inference_steps",
    "concurrency", "random_weights", "reference_kernels", "key",
]  # fmt: skip
_PLANNED = ("activations", "context")


def request_rows(benchmarks: Iterable[Benchmark]) -> pd.DataFrame:
    """One row a completed request: the conditions of its benchmark, index, latency_s."""
    return _frame(
        benchmarks,
        lambda one: (
            {"index": row.index, "latency_s": row.latency_s} for row in one.result.completed
        ),
    )


def memory_parts(benchmarks: Iterable[Benchmark]) -> pd.DataFrame:
    """One row a benchmark, rank and part of its memory.

    Returns:
        The conditions; rank; part (a component, or :data:`ABOVE`: the reserved peak less all
        weights); bytes; load_peak_bytes of the rank, not a number where no books are kept.
    """
    return _frame(benchmarks, _memory)


def planned_parts(plan: pd.DataFrame, *, precision: str) -> pd.DataFrame:
    """The estimates of a plan in the columns of :func:`memory_parts`, each for its fullest rank.

    Args:
        plan: rows of the table of :func:`workbench.plan`.
        precision: what to call the model's.
    """
    names = [name.removesuffix("_gib") for name in plan if name.endswith("_gib")]
    parts = [name for name in names if name not in ("memory", *_PLANNED)]
    rows = []
    for row in plan.to_dict("records"):
        short = layout(Parallelism(**{name: row[name] for name in SHORT}))
        above = sum(row[f"{name}_gib"] for name in _PLANNED)
        sizes = {**{name: row[f"{name}_gib"] for name in parts}, ABOVE: above}
        facts = {"precision": precision, "layout": short, "rank": 0}
        rows += [
            {**facts, "part": name, "bytes": size * GIB, "load_peak_bytes": float("nan")}
            for name, size in sizes.items()
        ]
    return pd.DataFrame(rows)


def stage_seconds(benchmarks: Iterable[Benchmark]) -> pd.DataFrame:
    """One row a benchmark and component: the conditions, stage, seconds of the profiled run.

    Benchmarks that timed no components are left out.
    """
    return _frame(
        benchmarks,
        lambda one: ({"stage": name, "seconds": taken} for name, taken in one.stages_s.items()),
    )


def kernel_shares(times: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Share of the wall time by kind of kernel, and what is left idle.

    Args:
        times: a name -> what ``engine.kernel_times`` gave.

    Returns:
        One row a name and kind: precision (the name), kind, share, wall_s. ``attrs["unseen"]``
        names those of which the profiler saw no kernel: that is a failure, and not idleness.
    """
    rows = []
    for name, table in times.items():
        if table.empty:
            continue
        shares = table.groupby("kind")["share"].sum().sort_values(ascending=False)
        rows += [
            {"precision": name, "kind": kind, "share": share, "wall_s": table.attrs["wall_s"]}
            for kind, share in {**shares, "idle": table.attrs["idle"]}.items()
        ]
    found = pd.DataFrame(rows, columns=["precision", "kind", "share", "wall_s"])
    found.attrs["unseen"] = [name for name, table in times.items() if table.empty]
    return found


def layout_table(benchmarks: Iterable[Benchmark]) -> pd.DataFrame:
    """One row a benchmark, each against the first: what further devices buy.

    Returns:
        precision, layout, world_size (as read back from the workers), latency_s with its low and
        high, speedup with its low and high (latency of the first over this one's), pictures_per_s,
        fullest_rank_bytes and reserved_peak_bytes (of all ranks), random_weights; rounds, the fewer
        of the first run and this one: below 6 low and high are a range and no 95 % interval.

    Raises:
        ComparisonRefused: runs that differ in more than precision and layout.
    """
    every = list(benchmarks)
    table = speed_table(every)
    ratios = [speedup(every[0], one, across={"parallelism"}) for one in every]
    table["rounds"] = [ratio["rounds"] for ratio in ratios]
    for name in ("", "_low", "_high"):
        table[f"speedup{name}"] = [ratio[f"latency{name}"] for ratio in ratios]
    table["world_size"] = [one.audit.world_sizes["world"] for one in every]
    table["fullest_rank_bytes"] = [max(r.reserved_peak for r in one.memory) for one in every]
    return table[
        ["precision", "layout", "world_size", "latency_s", "latency_s_low", "latency_s_high",
         "speedup", "speedup_low", "speedup_high", "pictures_per_s", "fullest_rank_bytes",
         "reserved_peak_bytes", "random_weights", "rounds"]
    ]  # fmt: skip


def _memory(one: Benchmark) -> Iterator[dict[str, Any]]:
    for rank in one.memory:
        above = max(0, rank.reserved_peak - sum(rank.weights.values()))
        peak = float("nan") if rank.load_peak is None else rank.load_peak
        for name, size in {**rank.weights, ABOVE: above}.items():
            yield {"rank": rank.rank, "part": name, "bytes": size, "load_peak_bytes": peak}


def _frame(benchmarks: Iterable[Benchmark], rows_of: Any) -> pd.DataFrame:
    rows = []
    for one in benchmarks:
        (run,) = speed_table([one])[_CONDITIONS].to_dict("records")
        rows += [{**run, **row} for row in rows_of(one)]
    return pd.DataFrame(rows)
