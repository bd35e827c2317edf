"""A worker in a process of its own: same pixels, nothing left of it, and its death survived."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest

import workbench as wb
from workbench.errors import LaunchFailed, SpecError
from workbench.records import GenerationSet
from workbench.serve import omni
from workbench.serve.engine import Engine

TINY = wb.Sampling(num_inference_steps=2, height=64, width=64)
LONG = wb.Sampling(num_inference_steps=5000, height=64, width=64)  # minutes, if nothing ends it
TP2 = wb.Parallelism(tensor_parallel_size=2)
WITHIN_S = 20.0
"""On idle cores 2 to 5: the executor's monitor, then its wait for the other workers. The request
alone would take minutes."""
UNDER_WAY_S = 60.0
"""Until a request is out and computes."""


@pytest.fixture(scope="module")
def engine(tiny_qwen: Path, shared_runs: Path) -> Iterator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(shared_runs))
        with wb.launch(str(tiny_qwen), isolation="process") as started:
            yield started


@pytest.fixture(scope="module")
def drawn(engine: Engine) -> GenerationSet:
    return engine.generate("a teapot", sampling=TINY)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell starts its background jobs with SIGINT ignored; here it interrupts all the same."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def workers() -> list[psutil.Process]:
    """What this process started; Python's own tracker of shared memory stays as long as we do."""
    children = psutil.Process().children(recursive=True)
    return [one for one in children if "resource_tracker" not in " ".join(one.cmdline())]


@contextmanager
def while_it_draws(act: Callable[[], None]) -> Iterator[None]:
    """Acts once in the body: when a request is out and a worker has computed for a while."""
    sent, send = threading.Event(), omni.request

    def noted(*request: object) -> object:
        sent.set()
        return send(*request)

    def later() -> None:
        assert sent.wait(UNDER_WAY_S)
        before = computed_s()
        until = time.monotonic() + UNDER_WAY_S
        while computed_s() < before + 0.3 and time.monotonic() < until:
            time.sleep(0.02)
        act()

    thread = threading.Thread(target=later)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(omni, "request", noted)
        thread.start()
        try:
            yield
        finally:
            thread.join()


def computed_s() -> float:
    """Processor seconds of all workers so far."""
    return sum(sum(worker.cpu_times()[:2]) for worker in workers())


def draw_and_kill(engine: Engine, victim: psutil.Process) -> float:
    """Seconds from the death of a worker to the error."""
    died: list[float] = []

    def kill() -> None:
        died.append(time.monotonic())
        victim.kill()

    with (
        while_it_draws(kill),
        pytest.raises(LaunchFailed, match="the same call goes on with a fresh engine"),
    ):
        engine.generate("a car", sampling=LONG)
    return time.monotonic() - died[0]


def test_one_worker_in_a_process_of_its_own_draws_what_one_inline_does(
    tiny_qwen: Path, drawn: GenerationSet, runs: Path
) -> None:
    (worker,) = workers()
    assert worker.pid != os.getpid()
    inline = wb.generate(str(tiny_qwen), "a teapot", sampling=TINY)
    assert workers() == [worker]  # inline starts none
    assert [one.sha256 for one in drawn] == [one.sha256 for one in inline]
    assert drawn.key != inline.key
    assert drawn.audit.verdict == inline.audit.verdict == "as requested"
    assert drawn.audit.world_sizes["world"] == 1
    assert drawn[0].trajectory.latents.shape == inline[0].trajectory.latents.shape


def test_a_worker_killed_while_it_draws_is_a_failed_launch_and_the_next_call_works(
    engine: Engine, drawn: GenerationSet, runs: Path
) -> None:
    (worker,) = workers()
    assert draw_and_kill(engine, worker) < WITHIN_S
    assert not workers()
    again = engine.generate("a teapot", sampling=TINY)
    assert again[0].sha256 == drawn[0].sha256
    assert workers()


def test_closing_ends_the_worker_and_again_is_harmless(
    engine: Engine, drawn: GenerationSet, runs: Path
) -> None:
    """The last one with this engine, which the test before it started again."""
    (worker,) = workers()
    engine.close()
    assert not worker.is_running()
    engine.close()
    with pytest.raises(LaunchFailed, match="closed"):
        engine.generate("a car", sampling=TINY)


@pytest.mark.slow
def test_an_interrupt_or_a_death_between_two_requests_leaves_no_worker(
    tiny_qwen: Path, runs: Path, interruptible: None
) -> None:
    with wb.launch(str(tiny_qwen), isolation="process") as engine:
        interrupt = partial(os.kill, os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), while_it_draws(interrupt):
            engine.generate("a car", sampling=LONG)
        assert not workers()
        engine.generate("a car", sampling=TINY)
        (worker,) = workers()
        worker.kill()
        began = time.monotonic()
        with pytest.raises(LaunchFailed):
            engine.generate("a teapot", sampling=TINY)
        assert time.monotonic() - began < WITHIN_S
        assert not workers()


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "step_execution"), [(0, False), (1, True)])
def test_the_death_of_one_of_two_workers_ends_the_other_and_the_next_launch_works(
    tiny_qwen: Path, runs: Path, rank: int, step_execution: bool
) -> None:
    options = {"parallelism": TP2, "step_execution": step_execution}
    with wb.launch(str(tiny_qwen), **options) as engine:
        first = engine.generate("a teapot", sampling=TINY)
        both = sorted(workers(), key=lambda one: one.create_time())
        assert len(both) == 2
        assert draw_and_kill(engine, both[rank]) < WITHIN_S
        assert not workers()
        again = engine.generate("a teapot", sampling=TINY, force=True)
        assert again[0].sha256 == first[0].sha256
    assert not workers()


def test_a_server_is_always_a_process_of_its_own(
    tiny_qwen: Path, runs: Path, nothing_starts: None
) -> None:
    with pytest.raises(SpecError, match="isolation='process' is of a launch in this process"):
        wb.serve(str(tiny_qwen), isolation="process")
    with pytest.raises(SpecError, match="isolation"):
        wb.launch(str(tiny_qwen), isolation="thread")
    with pytest.raises(SpecError, match="isolation='process'"):
        wb.generate(str(tiny_qwen), "a car", runtime="diffusers", isolation="process")
