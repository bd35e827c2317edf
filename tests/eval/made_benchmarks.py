"""Benchmarks that nothing ran: latencies, memory and conditions as a test gives them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from workbench.audits import Audit, LayerCensus
from workbench.recipes import QuantRecipe
from workbench.specs import LaunchSpec, ModelRef, Parallelism, PromptSet, Sampling, Workload
from workbench.speed import Benchmark, BenchmarkSpec, LoadResult, RankMemory, RequestRow

MIB = 2**20
SIZED = Sampling(num_inference_steps=20, width=1024, height=1024)


def made(
    precision: str = "BF16",
    latencies: Iterable[float] = (1.0, 1.2, 0.9, 1.1),
    *,
    concurrency: int = 1,
    peak_mib: int = 1000,
    load_peak_mib: int | None = None,
    random_weights: bool = False,
    reference_kernels: bool = False,
    platform: str = "cuda",
    sampling: Sampling = SIZED,
    parallelism: Parallelism | None = None,
    failed: int = 0,
    model: str = "big",
    **launch: Any,
) -> Benchmark:
    """One benchmark; requests of a round begin together, and the next when all of it has ended."""
    asked = _launch(precision, model, parallelism or Parallelism(), launch)
    rows = _rows(list(latencies), concurrency, failed)
    workload = Workload(
        PromptSet("a <b>teapot</b>"),
        sampling=sampling,
        concurrency=concurrency,
        requests=len(rows),
    )
    spec = BenchmarkSpec(launch=asked, workload=workload, warmups=2)
    ranks = asked.parallelism.world_size
    return Benchmark(
        path=Path("benchmarks") / spec.key,
        spec=spec,
        audit=_audit(precision, ranks, platform, reference=reference_kernels),
        result=LoadResult(workload=workload, precision=precision, rows=rows),
        warmups=(),
        cold_s=2.0,
        batches={concurrency: 20},
        stages_s={"text_encoder": 0.1, "transformer": 0.6, "vae.decode": 0.2, "rest": 0.1},
        memory=tuple(_rank(i, peak_mib // ranks, load_peak_mib) for i in range(ranks)),
        load_s=9.0,
        checkpoint_bytes={"transformer": 500 * MIB, "vae": 100 * MIB},
        random_weights=random_weights,
        provenance={"gpus": [{"name": "NVIDIA H200"}], "cpu": {"name": "Some CPU"}},
    )


def curve(precision: str, rates: dict[int, float], *, spread: float = 0.0, **more: Any) -> list:
    """Benchmarks at several concurrencies with so many pictures a second; eight rounds each."""
    return [
        made(
            precision,
            [size / rate * (1 + spread * (-1) ** i) for i in range(8) for _ in range(size)],
            concurrency=size,
            **more,
        )
        for size, rate in rates.items()
    ]


def _launch(
    precision: str, model: str, parallelism: Parallelism, more: dict[str, Any]
) -> LaunchSpec:
    recipe = QuantRecipe(method="auto-round", scheme="W4A16") if precision == "W4A16" else None
    online = precision.lower() if precision in ("FP8", "INT8") else None
    values = {"recipe": recipe, "quantization": online, "parallelism": parallelism} | more
    return LaunchSpec(model=ModelRef(model), **values)


def _rows(latencies: list[float], concurrency: int, failed: int) -> tuple[RequestRow, ...]:
    rows, start = [], 0.0
    for index, latency in enumerate(latencies):
        if index and index % concurrency == 0:
            start = max(row.received_s for row in rows)
        rows.append(
            RequestRow(
                index=index,
                prompt="a",
                seed=0,
                sent_s=start,
                received_s=start + latency,
                stage_durations_s={},
                pictures=0 if index < failed else 1,
                error="lost" if index < failed else "",
            )
        )
    return tuple(rows)


def _rank(rank: int, peak_mib: int, load_peak_mib: int | None) -> RankMemory:
    return RankMemory(
        rank=rank,
        weights={"transformer": peak_mib * MIB // 2, "vae": peak_mib * MIB // 10},
        load_peak=None if load_peak_mib is None else load_peak_mib * MIB,
        allocated_peak=None,
        reserved_peak=peak_mib * MIB,
        device_used=None,
    )


def _audit(precision: str, ranks: int, platform: str, *, reference: bool) -> Audit:
    layer = LayerCensus(
        name="transformer_blocks.0.attn.to_q",
        layer="QKVParallelLinear",
        method="Method",
        kernel="SomeKernel",
        weight_dtype="int8",
        weight_bytes=MIB,
        parameters=MIB,
        quantized=precision != "BF16",
        reference_kernel=reference,
    )
    return Audit(
        requested=precision,
        verdict="as requested",
        layers=(layer,),
        platform=platform,
        attention_backend="TORCH_SDPA",
        world_sizes={"world": ranks},
        weight_bytes={},
    )
