"""The real ``vllm serve --omni`` on CPU: proved, asked on both routes, loaded, killed."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

import workbench as wb
from workbench.errors import ComparisonRefused, LaunchFailed, SpecError, StoreError
from workbench.records import Checkpoint, GenerationSet
from workbench.serve import server_door
from workbench.serve.server import Server

PROMPTS = ("a teapot", "a car")
STEPS = wb.Sampling(num_inference_steps=3)
PARENT = """
import sys, time
import workbench as wb
if __name__ == "__main__":
    two = wb.Parallelism(tensor_parallel_size=2)
    server = wb.serve(sys.argv[1], parallelism=two, step_execution=True)
    print(server.pid, flush=True)
    time.sleep(1000)
"""


@pytest.fixture(scope="module")
def server(tiny_qwen: Path, shared_runs: Path) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(shared_runs))
        with wb.serve(str(tiny_qwen)) as started:
            yield started


@pytest.fixture(scope="module")
def drawn(server: Server) -> GenerationSet:
    return server.generate(PROMPTS, seeds=(0, 1), sampling=STEPS)


@pytest.fixture(scope="module")
def in_process(tiny_qwen: Path, server: Server) -> GenerationSet:
    return wb.generate(str(tiny_qwen), PROMPTS, seeds=(0, 1), sampling=STEPS)


def test_its_own_workers_prove_the_precision(
    server: Server, drawn: GenerationSet, in_process: GenerationSet
) -> None:
    assert server.audit.verdict == "as requested"
    assert "weights read back" in server.audit.proved
    assert drawn.audit == server.audit
    uncounted = [dataclasses.replace(layer, rows=None) for layer in in_process.audit.layers]
    assert list(server.audit.layers) == uncounted


def test_it_draws_the_same_pixels_as_the_engine_in_process(
    drawn: GenerationSet, in_process: GenerationSet
) -> None:
    assert [one.sha256 for one in drawn] == [one.sha256 for one in in_process]
    assert drawn.key != in_process.key
    assert drawn.spec.launch.runtime == "vllm-omni-server"
    assert all(one.elapsed_s > 0 and one.stage_durations_s for one in drawn)
    assert all(one.peak_memory_bytes > sum(drawn.checkpoint_bytes.values()) / 2 for one in drawn)


def test_finished_sets_come_from_the_store(server: Server, drawn: GenerationSet) -> None:
    again = server.generate(PROMPTS, seeds=(0, 1), sampling=STEPS)
    assert [one.elapsed_s for one in again] == [one.elapsed_s for one in drawn]
    assert wb.load(drawn.key) == drawn


def test_the_chat_route_draws_the_same_under_a_key_of_its_own(
    server: Server, drawn: GenerationSet
) -> None:
    chat = server.generate("a car", seeds=(0, 1), sampling=STEPS, route="chat")
    assert [one.sha256 for one in chat] == [one.sha256 for one in drawn][2:]
    assert chat.spec.route == "chat"
    assert chat.key != chat.spec.but(route="images").key


def test_no_trajectory_is_recorded_and_a_comparison_says_so(
    drawn: GenerationSet, in_process: GenerationSet
) -> None:
    with pytest.raises(StoreError, match="a server hands out pictures alone"):
        _ = drawn[0].trajectory
    with pytest.raises(ComparisonRefused, match="runtime is"):
        wb.compare(in_process, drawn)
    with pytest.raises(StoreError, match="a server hands out pictures alone"):
        wb.compare(in_process, drawn, across=("runtime",))
    assert wb.score(in_process[0].image, drawn[0].image, metrics=("psnr_db",)).values


def test_a_load_of_three_in_flight_is_answered_whole(server: Server, drawn: GenerationSet) -> None:
    workload = wb.Workload(PROMPTS, seeds=(0, 1), sampling=STEPS, concurrency=3, requests=9)
    result = server.load(workload)
    assert not result.failed
    assert len(result.rows) == 9
    digests = {(one.prompt, one.seed): one.sha256 for one in drawn}
    assert all(row.sha256 == digests[row.prompt, row.seed] for row in result.rows)
    overlaps = [sum(a.sent_s <= b.sent_s < a.received_s for a in result.rows) for b in result.rows]
    assert max(overlaps) == 3
    assert result.pictures_per_s == pytest.approx(9 / result.elapsed_s)
    assert all(row.stage_durations_s for row in result.rows)
    assert all(0 <= row.queue_wait_s < row.latency_s for row in result.rows)
    waits = [row.queue_wait_s for row in result.rows]
    assert min(waits) < 0.5 * min(row.latency_s for row in result.rows)  # found the scheduler free
    # One is drawn at a time, so two of three wait; the rest of a latency is drawing and HTTP.
    assert sum(waits) > 0.5 * sum(row.latency_s - row.queue_wait_s for row in result.rows)
    assert all(row.bytes > 1000 for row in result.rows)


def test_it_is_measured_as_an_engine_in_this_process_is(
    server: Server, drawn: GenerationSet, monkeypatch: pytest.MonkeyPatch, shared_runs: Path
) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(shared_runs))
    smaller = wb.Sampling(num_inference_steps=2, height=64, width=64)
    workload = wb.Workload("a car", sampling=smaller, concurrency=2, requests=4)
    measured = wb.benchmark(server, workload)
    assert measured.spec.launch.runtime == "vllm-omni-server"
    assert not measured.result.failed
    assert len(measured.warmups) == 2
    assert measured.cold_s == measured.warmups[0].latency_s
    assert measured.batches == {1: 4 * 2 * 2}  # guidance passes the transformer twice a step
    assert set(measured.stages_s) == {"text_encoder", "transformer", "vae.decode", "rest"}
    assert all(seconds > 0 for seconds in measured.stages_s.values())
    (rank,) = measured.memory
    assert rank.weights["transformer"] > 0
    assert measured.peak_bytes > sum(rank.weights.values())
    assert wb.load(measured.key) == measured
    assert wb.benchmark(server, workload) == measured
    assert wb.benchmark(server, workload, stages=False, repeat=1).cold_s is None


def test_it_listens_on_the_loopback_address_and_guards_its_workers(server: Server) -> None:
    listening = [
        one.laddr
        for one in psutil.Process(server.pid).net_connections("tcp")
        if one.status == psutil.CONN_LISTEN and one.laddr.port == server.port
    ]
    assert [address.ip for address in listening] == ["127.0.0.1"]
    ask = {"method": "workbench_census", "args": []}
    for headers in ({}, {server_door.HEADER.decode(): "wrong"}):
        reply = httpx.post(f"{server.url}/collective_rpc", json=ask, headers=headers)
        assert reply.status_code == 403


def test_a_taken_port_is_refused_before_the_start(server: Server, tiny_qwen: Path) -> None:
    began = time.perf_counter()
    with pytest.raises(SpecError, match=f"port={server.port} on 127.0.0.1"):
        wb.serve(str(tiny_qwen), port=server.port)
    assert time.perf_counter() - began < 2


@pytest.mark.slow
def test_no_worker_is_left_when_who_started_them_is_killed(tiny_qwen: Path, runs: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tiny_qwen)], stdout=subprocess.PIPE, text=True
    )
    with parent, parent.stdout:
        pid = int(parent.stdout.readline())
        above = psutil.Process(pid).parent()
        processes = [above, *above.children(recursive=True)]
        assert sum("Worker" in " ".join(one.cmdline()) for one in processes) >= 2
        parent.kill()
        assert not psutil.wait_procs(processes, timeout=10)[1]


@pytest.mark.slow
def test_a_server_that_does_not_start_shows_the_end_of_its_log(tiny_qwen: Path, runs: Path) -> None:
    with pytest.raises(LaunchFailed, match=r"(?s)exit code 2 .*unrecognized arg") as raised:
        wb.serve(str(tiny_qwen), extra_flags=("--no-such-flag",))
    (log,) = runs.glob("logs/*.log")
    assert str(log) in str(raised.value)


@pytest.mark.slow
def test_a_quantized_checkpoint_is_served_by_two_workers(
    tiny_qwen: Path, w4a16: Checkpoint, runs: Path
) -> None:
    layout = wb.Parallelism(tensor_parallel_size=2)
    alone = wb.generate(w4a16, "a car", sampling=STEPS, parallelism=layout, step_execution=True)
    with wb.serve(w4a16, parallelism=layout, step_execution=True) as server:
        assert server.audit.verdict == "as requested"
        assert server.audit.world_sizes["tensor_parallel"] == 2
        drawn = server.generate("a car", sampling=STEPS)
        workers = psutil.Process(server.pid).children(recursive=True)
        assert len(workers) >= 2
    assert drawn[0].sha256 == alone[0].sha256
    assert not psutil.wait_procs(workers, timeout=5)[1]


def test_a_killed_server_is_a_failed_launch_within_seconds(server: Server, runs: Path) -> None:
    """The last one in this file, since it takes the server of the others."""
    os.kill(server.pid, signal.SIGKILL)
    began = time.perf_counter()
    with pytest.raises(LaunchFailed, match=r"(?s)exit code 137 \(SIGKILL\).*end of its log"):
        server.generate("a car", sampling=STEPS)
    assert time.perf_counter() - began < 8
    result = server.load(wb.Workload("a car", sampling=STEPS, requests=2))
    assert len(result.failed) == 2
    server.close()
    with pytest.raises(LaunchFailed, match="this server is closed"):
        server.generate("a car", sampling=STEPS)
