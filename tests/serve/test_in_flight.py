"""Several requests at once in the real engine on CPU: who waits, in what order, what comes out."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import workbench as wb
from workbench.errors import LaunchFailed, SpecError
from workbench.serve import in_flight
from workbench.serve.engine import Engine
from workbench.serve.in_flight import InFlight
from workbench.speed import LoadResult

PROMPTS = ("a teapot", "a car")
SEEDS = (0, 1)
TINY = wb.Sampling(num_inference_steps=2, height=64, width=64)
HELD_S = 2.0  # seconds that one request is held for
WORKLOAD = wb.Workload(PROMPTS, seeds=SEEDS, sampling=TINY, concurrency=3, requests=7)


@pytest.fixture(scope="module")
def engine(tiny_qwen: Path, shared_runs: Path) -> Iterator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(shared_runs))
        with wb.launch(str(tiny_qwen)) as started:
            yield started


@pytest.fixture(scope="module")
def most(engine: Engine) -> list[int]:
    """How many were in flight after each sending."""
    return []


@pytest.fixture(scope="module")
def result(engine: Engine, most: list[int]) -> LoadResult:
    send = InFlight.send

    def counted(self: InFlight, *request: object) -> str:
        name = send(self, *request)
        most.append(len(self._sent))
        return name

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InFlight, "send", counted)
        return engine.load(WORKLOAD)


def test_every_request_is_answered_in_turn(result: LoadResult) -> None:
    assert not result.failed
    assert [row.index for row in result.rows] == list(range(7))
    turn = itertools.islice(itertools.cycle(itertools.product(PROMPTS, SEEDS)), 7)
    assert [(row.prompt, row.seed) for row in result.rows] == list(turn)
    assert all(row.pictures == 1 and row.bytes == 0 for row in result.rows)
    assert all(0 <= row.sent_s < row.received_s for row in result.rows)


def test_never_more_are_in_flight_than_asked(result: LoadResult, most: list[int]) -> None:
    assert most == [1, 2, 3, 3, 3, 3, 3]
    overlaps = [sum(a.sent_s <= b.sent_s < a.received_s for a in result.rows) for b in result.rows]
    assert max(overlaps) == 3


def test_the_pictures_are_bit_for_bit_those_of_one_request_at_a_time(
    engine: Engine, result: LoadResult
) -> None:
    alone = engine.generate(PROMPTS, seeds=SEEDS, sampling=TINY)
    digests = {(one.prompt, one.seed): one.sha256 for one in alone}
    assert len(set(digests.values())) == 4
    assert [row.sha256 for row in result.rows] == [
        digests[row.prompt, row.seed] for row in result.rows
    ]


def test_the_wait_of_a_request_is_that_for_the_one_that_is_drawn(engine: Engine) -> None:
    """The first is held while it is drawn, so that no noise of the machine decides."""
    attend, send = torch.nn.functional.scaled_dot_product_attention, InFlight.send
    gate = threading.Event()
    opened = threading.Timer(HELD_S, gate.set)

    def held(*tensors: object, **options: object) -> object:
        assert gate.wait(60)
        return attend(*tensors, **options)

    def noted(self: InFlight, *request: object) -> str:
        name = send(self, *request)
        if len(self._sent) == 3:  # all of them are out
            opened.start()
        return name

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", held)
        patch.setattr(InFlight, "send", noted)
        first, second, third = engine.load(WORKLOAD.but(requests=3)).rows
    assert first.queue_wait_s < 0.5 * HELD_S < second.queue_wait_s
    assert third.queue_wait_s > 0.5 * HELD_S
    assert min(row.latency_s for row in (first, second, third)) > HELD_S


def test_no_wait_is_longer_than_the_request(result: LoadResult) -> None:
    assert all(0 <= row.queue_wait_s < row.latency_s for row in result.rows)


def test_the_engines_own_split_of_the_time_is_kept(result: LoadResult) -> None:
    assert all(row.stage_durations_s for row in result.rows)
    assert all(value >= 0 for row in result.rows for value in row.stage_durations_s.values())


def test_nothing_of_a_load_stays_in_the_engine(engine: Engine, result: LoadResult) -> None:
    assert not engine._omni.request_states


def test_a_workload_that_the_model_cannot_draw_is_refused_before_anything_is_sent(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_flight, "run", lambda *_: pytest.fail("it was sent"))
    with pytest.raises(SpecError, match="draws images"):
        engine.load(WORKLOAD.but(sampling=wb.Sampling(num_frames=5)))


def test_one_that_fails_inside_the_engine_is_a_failed_launch_and_the_next_call_works(
    engine: Engine, result: LoadResult
) -> None:
    """The last one in this file, since it takes the engine of the others."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory in attention")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", broken)
        with pytest.raises(LaunchFailed, match=r"3 requests in flight: .*out of memory"):
            engine.load(WORKLOAD)
    assert not engine.drawn
    again = engine.load(WORKLOAD.but(requests=4))
    assert [row.sha256 for row in again.rows] == [row.sha256 for row in result.rows[:4]]
    engine.close()
    with pytest.raises(LaunchFailed, match="closed"):
        engine.load(WORKLOAD)
    with pytest.raises(LaunchFailed, match="closed"):
        engine.call_workers("workbench_meter")
