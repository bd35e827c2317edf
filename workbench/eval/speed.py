"""Benchmarks side by side: one table, and speed-ups between runs that may be compared."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import ComparisonRefused
from workbench.eval.guard import differences, refuse_unknown
from workbench.eval.speed_notes import queue_wait_s, speed_notes
from workbench.eval.speed_spread import latency_ends, rounds, spread_name, throughput_ends
from workbench.specs import Parallelism
from workbench.speed import Benchmark, RankMemory

ENGINE = "stage_0_gen"
"""Of the stage durations: the engine's own time for a request, while others may be drawn."""
SHORT = {
    "tensor_parallel_size": "TP",
    "cfg_parallel_size": "CFG",
    "ulysses_degree": "Ulysses",
    "ring_degree": "ring",
    "vae_patch_parallel_size": "VAE",
}
MAY_DIFFER = (
    "model",
    "size",
    "num_inference_steps",
    "guidance",
    "prompts",
    "images",
    "attention_backend",
    "compiled",
    "parallelism",
    "batching",
    "concurrency",
    "runtime",
    "platform",
    "weights",
)
"""What moves a speed without being a change of precision."""


def speed_table(benchmarks: Iterable[Benchmark]) -> pd.DataFrame:
    """One row a benchmark; times in seconds, memory in bytes.

    Returns:
        model, precision, layout, compiled, attention_backend, device, size (pixels, then frames of
        a video), num_inference_steps, concurrency, requests (completed), failed, rounds (values
        that are independent: requests in flight together end together); latency_s (median),
        latency_s_low and latency_s_high (95 % interval of it; of fewer than 6 rounds their range,
        none from a single one), latency_s_p90, engine_s (median of the engine's own time),
        queue_wait_s (median of the wait before a request was scheduled, also for others to be
        drawn with), latency_less_wait_s (median of the latency without it), cold_s, load_s;
        pictures_per_s with its low and high, drawn (``pictures``, or ``clips`` of a video model,
        which pictures_per_s and mean_batch count then); mean_batch; of all ranks together
        weight_bytes, load_peak_bytes, allocated_peak_bytes, reserved_peak_bytes, device_used_bytes;
        checkpoint_bytes; random_weights; reference_kernels (their times mean nothing); key. Not a
        number where nothing was measured.
    """
    return pd.DataFrame([_row(one) for one in benchmarks])


def speedup(
    reference: Benchmark, candidate: Benchmark, *, across: Collection[str] = ()
) -> dict[str, Any]:
    """How many times as fast the candidate is, at one stream or under load.

    Args:
        reference: One benchmark.
        candidate: The other, of another precision.
        across: What else may differ: names of MAY_DIFFER.

    Returns:
        ``latency`` (the reference's median latency over the candidate's) and ``throughput``
        (the candidate's pictures a second over the reference's), each with ``_low`` and ``_high``;
        ``spread``, what these are: a 95 % bootstrap interval, or with fewer than
        :data:`workbench.eval.speed_spread.CERTAIN` rounds of requests on a side the range, round
        against round; ``rounds``, the fewer of both sides; ``mean_batch`` of reference and
        candidate; ``notes``, what else differs, in words: batches that ran, versions, warm-ups,
        isolation. Latency is of the whole request, the wait for others included.

    Raises:
        ComparisonRefused: the runs differ in more than precision; names each field with both
            values. An unknown name in ``across``.
    """
    refuse_unlike(reference, candidate, across)
    fewest = min(rounds(reference), rounds(candidate))
    return {
        "latency": _latency(reference) / _latency(candidate),
        **_within("latency", latency_ends(reference, candidate)),
        "throughput": candidate.result.pictures_per_s / reference.result.pictures_per_s,
        **_within("throughput", throughput_ends(candidate, reference)),
        "rounds": fewest,
        "spread": spread_name(fewest),
        "mean_batch": (reference.mean_batch, candidate.mean_batch),
        "notes": speed_notes(_named(reference, candidate)),
    }


def _named(reference: Benchmark, candidate: Benchmark) -> list[tuple[str, Benchmark]]:
    names = [reference.precision, candidate.precision]
    if names[0] == names[1]:
        names = ["the reference", "the candidate"]
    return list(zip(names, (reference, candidate), strict=True))


def refuse_unlike(reference: Benchmark, candidate: Benchmark, across: Collection[str] = ()) -> None:
    """Refuse two benchmarks that differ in more than precision.

    A folder that was quantized elsewhere is a model of its own, so its name is not compared.

    Raises:
        ComparisonRefused: as :func:`speedup` says.
    """
    refuse_unknown(across, MAY_DIFFER)
    stored = {one.spec.launch.stored for one in (reference, candidate)}
    may = {*across, *({"model"} if stored != {None} else ())}
    if differing := differences(conditions(reference), conditions(candidate), may):
        raise ComparisonRefused(
            f"{reference.precision} and {candidate.precision} differ in more than precision: "
            f"{differing}. Measure one of them again with the other's values, or name "
            "what may differ in across="
        )


def conditions(one: Benchmark) -> dict[str, Any]:
    """How a benchmark was run, precision apart, by the names of MAY_DIFFER."""
    launch, workload = one.spec.launch, one.spec.workload
    drawn = workload.sampling
    batching = (launch.step_execution, launch.max_num_seqs, launch.request_batch_max_wait_ms)
    return {
        "model": (launch.model.source, launch.model.revision),
        "size": (drawn.width, drawn.height, drawn.num_frames),
        "num_inference_steps": drawn.num_inference_steps,
        "guidance": tuple(
            getattr(drawn, name)
            for name in ("guidance_scale", "guidance_scale_2", "true_cfg_scale", "negative_prompt")
        ),
        "prompts": workload.prompts.prompts,
        "images": workload.images,
        "attention_backend": one.audit.attention_backend,
        "compiled": not launch.enforce_eager,
        "parallelism": layout(launch.parallelism),
        "batching": batching,
        "concurrency": workload.concurrency,
        "runtime": launch.runtime,
        "platform": (one.audit.platform, device(one)),
        "weights": "random" if one.random_weights else "trained",
    }


def device(one: Benchmark) -> str:
    """Name of the processor that it ran on, of one of them where there are several."""
    on_cpu = one.audit.platform == "cpu"
    gpus = one.provenance.get("gpus") or [{}]
    found = one.provenance.get("cpu", {}) if on_cpu else gpus[0]
    return found.get("name", one.audit.platform)


def layout(parallelism: Parallelism) -> str:
    """Short name of a layout: ``TP=2 x CFG=2``, ``one device``."""
    sizes = parallelism.model_dump()
    parts = [f"{short}={sizes[name]}" for name, short in SHORT.items() if sizes[name] > 1]
    return " x ".join(parts) or "one device"


def _latency(one: Benchmark) -> float:
    return one.result.latency_s["median"]


def _within(name: str, ends: tuple[float, float]) -> dict[str, float]:
    return {f"{name}_low": ends[0], f"{name}_high": ends[1]}


def _row(one: Benchmark) -> dict[str, Any]:
    launch, workload, done = one.spec.launch, one.spec.workload, one.result.completed
    less = [row.latency_s - row.queue_wait_s for row in done if row.queue_wait_s is not None]
    own = [row.stage_durations_s[ENGINE] for row in done if ENGINE in row.stage_durations_s]
    drawn = workload.sampling
    size = " x ".join(str(n) for n in (drawn.width, drawn.height, drawn.num_frames) if n)
    return {
        "model": launch.model.source,
        "precision": one.precision,
        "layout": layout(launch.parallelism),
        "compiled": not launch.enforce_eager,
        "attention_backend": one.audit.attention_backend,
        "device": device(one),
        "size": size,
        "num_inference_steps": workload.sampling.num_inference_steps,
        "concurrency": workload.concurrency,
        "requests": len(done),
        "failed": len(one.result.failed),
        "rounds": rounds(one),
        "latency_s": _latency(one),
        **_within("latency_s", latency_ends(one)),
        "latency_s_p90": one.result.latency_s["p90"],
        "engine_s": _median(own),
        "queue_wait_s": queue_wait_s(one),
        "latency_less_wait_s": _median(less),
        "cold_s": np.nan if one.cold_s is None else one.cold_s,
        "load_s": one.load_s,
        "pictures_per_s": one.result.pictures_per_s,
        **_within("pictures_per_s", throughput_ends(one)),
        "drawn": one.result.drawn,
        "mean_batch": one.mean_batch,
        "weight_bytes": sum(sum(rank.weights.values()) for rank in one.memory),
        **{f"{name}_bytes": _over_ranks(one.memory, name) for name in _BOOKS},
        "checkpoint_bytes": sum(one.checkpoint_bytes.values()),
        "random_weights": one.random_weights,
        "reference_kernels": one.audit.reference_kernels,
        "key": one.key,
    }


_BOOKS = ("load_peak", "allocated_peak", "reserved_peak", "device_used")


def _over_ranks(ranks: Iterable[RankMemory], name: str) -> float:
    values = [getattr(rank, name) for rank in ranks]
    return float("nan") if None in values else float(sum(values))


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else float("nan")
