"""A benchmark of the real engine on CPU: rows, batches that ran, stages, memory, the store."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import workbench as wb
from workbench import store
from workbench.errors import LaunchFailed, SpecError
from workbench.serve.engine import Engine
from workbench.serve.meter import Meter
from workbench.speed import KIND, Benchmark
from workbench.zoo.weights import weight_bytes

TINY = wb.Sampling(num_inference_steps=2, height=64, width=64)
LARGER = TINY.but(width=128)
STEPS = TINY.num_inference_steps
PASSES = 2 * STEPS  # with guidance, Qwen-Image passes its transformer twice a step
WORKLOAD = wb.Workload("a teapot", seeds=(0, 1), sampling=TINY, concurrency=2, requests=4)
WAIT_MS = 3000.0  # more than enough for the second of two requests to arrive


@pytest.fixture(scope="module")
def engine(tiny_qwen: Path, shared_runs: Path) -> Iterator[Engine]:
    """Draws two pictures together, and waits for the second of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(shared_runs))
        options = {"max_num_seqs": 2, "request_batch_max_wait_ms": WAIT_MS}
        with wb.launch(str(tiny_qwen), **options) as started:
            yield started


@pytest.fixture(scope="module")
def first(engine: Engine) -> Benchmark:
    return wb.benchmark(engine, WORKLOAD)


@pytest.fixture(scope="module")
def alone(engine: Engine, first: Benchmark) -> Benchmark:
    """At a size that this engine has not drawn, and no more than one at a time."""
    workload = WORKLOAD.but(sampling=LARGER, concurrency=1, requests=2)
    return wb.benchmark(engine, workload, warmups=1, stages=False)


def test_the_rows_are_the_requests_that_count_without_the_warm_ups(first: Benchmark) -> None:
    assert [row.index for row in first.result.rows] == [0, 1, 2, 3]
    assert not first.result.failed
    assert len(first.warmups) == first.spec.warmups == 2
    assert len(first.table()) == 4
    assert first.precision == "BF16"
    assert first.audit.verdict == "as requested"
    assert first.random_weights
    assert first.load_s > 0
    assert first.provenance["packages"]["vllm-omni"]


def test_the_batches_are_those_that_ran(first: Benchmark, alone: Benchmark) -> None:
    assert first.batches == {2: 2 * PASSES}  # four requests, two by two
    assert first.mean_batch == 2
    assert alone.batches == {1: 2 * PASSES}


def test_pictures_drawn_together_are_answered_together(first: Benchmark) -> None:
    rows = first.result.rows
    both, next_both = rows[:2], rows[2:]
    # The engine has each pair before it answers either, and both before it draws the next pair.
    assert max(row.sent_s for row in both) < min(row.received_s for row in both)
    assert max(row.received_s for row in both) < min(row.received_s for row in next_both)
    for one, two in (both, next_both):
        assert one.sha256 != two.sha256  # each from its own seed
    assert [row.sha256 for row in rows[:2]] == [row.sha256 for row in rows[2:]]


def test_a_first_request_at_a_sampling_is_cold_and_a_later_one_is_not(
    engine: Engine, first: Benchmark, alone: Benchmark
) -> None:
    assert first.cold_s == first.warmups[0].latency_s
    assert alone.cold_s == alone.warmups[0].latency_s
    again = wb.benchmark(engine, WORKLOAD, stages=False, repeat=1)
    assert again.cold_s is None
    assert again.key != first.key


def test_what_was_generated_before_is_not_cold(engine: Engine, first: Benchmark) -> None:
    sampling = TINY.but(num_inference_steps=3)
    engine.generate("a car", sampling=sampling)
    workload = WORKLOAD.but(sampling=sampling, requests=2)
    assert wb.benchmark(engine, workload, stages=False).cold_s is None


def test_without_warm_ups_none_is_said_to_be_cold(engine: Engine, first: Benchmark) -> None:
    workload = WORKLOAD.but(sampling=TINY.but(height=128), requests=2)
    got = wb.benchmark(engine, workload, warmups=0, stages=False)
    assert got.warmups == ()
    assert got.cold_s is None


def test_the_stages_and_the_rest_add_up_to_a_wall_time(first: Benchmark, alone: Benchmark) -> None:
    stages = first.stages_s
    assert set(stages) == {"text_encoder", "transformer", "vae.decode", "rest"}
    assert all(seconds > 0 for seconds in stages.values())
    typical = first.result.latency_s["median"]
    assert typical / 10 < sum(stages.values()) < 10 * typical
    assert alone.stages_s == {}


def test_memory_is_that_of_each_rank_by_component(engine: Engine, first: Benchmark) -> None:
    (rank,) = first.memory
    assert rank.rank == 0
    assert {"transformer", "text_encoder", "vae"} <= set(rank.weights)
    assert all(size > 0 for size in rank.weights.values())
    assert rank.reserved_peak >= sum(rank.weights.values())
    assert first.peak_bytes == rank.reserved_peak
    assert first.checkpoint_bytes == weight_bytes(engine.folder)
    if not engine.device_used_before:  # no allocator keeps books on CPU
        assert (rank.load_peak, rank.allocated_peak, rank.device_used) == (None, None, None)


def test_a_card_gives_back_what_was_measured(
    first: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests with their stages and digests, groups as the workers report them, what made it."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    cards = importlib.import_module("speed_cards")
    card = json.loads(json.dumps(cards.card([first], {first.key: {}})))
    (run,) = card["runs"]
    back = cards.benchmark(run, {})
    assert back.result == first.result
    assert back.warmups == first.warmups
    for name in ("world_sizes", "platform", "verdict", "attention_backend", "reference_kernels"):
        assert getattr(back.audit, name) == getattr(first.audit, name)
    assert back.provenance == first.provenance
    columns = wb.speed_table([back]).columns.drop(["key"])
    pd.testing.assert_frame_equal(wb.speed_table([back])[columns], wb.speed_table([first])[columns])
    assert "engine_s" in columns
    assert wb.speed_table([back])["engine_s"].notna().all()


def test_a_second_call_takes_what_is_stored(
    engine: Engine, first: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "load", lambda *_: pytest.fail("it was measured again"))
    assert wb.benchmark(engine, WORKLOAD) == first
    assert wb.load(first.key) == first
    assert wb.load(first.key[:8]).path == store.path(KIND, first.spec)


def test_a_forced_one_measures_again_under_the_same_key(engine: Engine, first: Benchmark) -> None:
    before = (first.path / store.MANIFEST).read_bytes()
    forced = wb.benchmark(engine, WORKLOAD, force=True)
    assert forced.key == first.key
    assert forced.result.rows != first.result.rows
    assert forced.cold_s is None
    same = [row.sha256 for row in first.result.rows]
    assert [row.sha256 for row in forced.result.rows] == same
    (first.path / store.MANIFEST).write_bytes(before)


def test_a_contradictory_workload_is_refused_before_anything_is_sent(
    engine: Engine, first: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "load", lambda *_: pytest.fail("it was sent"))
    with pytest.raises(SpecError, match="draws images"):
        wb.benchmark(engine, WORKLOAD.but(sampling=wb.Sampling(num_frames=5)))
    with pytest.raises(SpecError, match="warmups"):
        wb.benchmark(engine, WORKLOAD, warmups=-1)
    with pytest.raises(SpecError, match="route='chat' is one of a server"):
        wb.benchmark(engine, WORKLOAD.but(route="chat"))
    with pytest.raises(SpecError, match=r"workload='a teapot' is a str; give workbench.Workload"):
        wb.benchmark(engine, "a teapot")
    for nothing in ("embedded:qwen-image", None, wb):
        with pytest.raises(SpecError, match=r"launched=.* give what workbench.launch"):
            wb.benchmark(nothing, WORKLOAD)
    with pytest.raises(SpecError, match=r"prompt=.* of one prompt"):
        engine.kernel_times(["a teapot", "a car"])


def test_the_line_of_a_benchmark_says_what_a_reader_needs(first: Benchmark) -> None:
    assert "BF16, 2 in flight: 4 of 4 requests" in str(first)
    assert "peak" in str(first)
    assert "(random weights)" in str(first)
    assert "random" not in str(dataclasses.replace(first, random_weights=False))


def test_kernel_times_are_those_of_one_request(engine: Engine, first: Benchmark) -> None:
    table = engine.kernel_times("a teapot", sampling=TINY)
    assert table.seconds.is_monotonic_decreasing
    assert {"GEMM", "attention", "norm", "elementwise"} <= set(table.kind)
    assert 0 < table.share.sum() <= 1.05
    assert 0 <= table.attrs["idle"] < 1
    assert table.attrs["wall_s"] > table.seconds.max()


def test_one_that_fails_inside_the_engine_stores_nothing_and_the_next_call_works(
    engine: Engine, first: Benchmark
) -> None:
    """The last one in this file, since it takes the engine of the others."""

    def full(*_: object) -> None:
        raise RuntimeError("the counter ran over")

    workload = WORKLOAD.but(requests=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Meter, "_count", full)
        with pytest.raises(LaunchFailed, match=r"2 requests in flight: .*ran over"):
            wb.benchmark(engine, workload, stages=False)
    spec = first.spec.but(workload=first.spec.workload.but(requests=2))
    assert not store.has(KIND, spec)
    again = wb.benchmark(engine, workload, warmups=0, stages=False)  # starts the engine
    assert again.batches == {2: PASSES}
    assert [row.sha256 for row in again.result.rows] == [
        row.sha256 for row in first.result.rows[:2]
    ]
