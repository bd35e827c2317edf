"""The real ``vllm serve --omni`` on CPU: proved, asked on both routes, loaded, killed."""

import dataclasses
import os
import signal
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import psutil
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

import workbench as wb
from workbench import store
from workbench.errors import ComparisonRefused, LaunchFailed, SpecError, StoreError
from workbench.pixels import pixel_digest
from workbench.records import GenerationSet
from workbench.serve.server import Server
from workbench.serve.server_requests import opened, payload

PROMPTS = ("a teapot", "a car")
STEPS = wb.Sampling(num_inference_steps=3)
WITHIN_S = 20.0  # 2 on idle cores, and a request may take an hour


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


def test_a_load_by_the_chat_route_has_the_same_records(
    server: Server, drawn: GenerationSet, monkeypatch: pytest.MonkeyPatch, shared_runs: Path
) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(shared_runs))
    images = wb.Workload(PROMPTS, seeds=(0, 1), sampling=STEPS, concurrency=2, requests=4)
    chat = images.but(route="chat")
    result = server.load(chat)
    assert [row.sha256 for row in result.rows] == [one.sha256 for one in drawn]
    assert all(row.stage_durations_s and row.pictures == 1 for row in result.rows)
    assert all(row.queue_wait_s is None and row.bytes > 1000 for row in result.rows)
    measured = wb.benchmark(server, chat, warmups=0, stages=False)
    assert measured.spec.workload.route == "chat"
    assert [row.sha256 for row in measured.result.rows] == [one.sha256 for one in drawn]
    assert chat.key != images.key


def test_what_a_server_cannot_be_asked_is_refused_before_it_is_sent(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Server, "_post", lambda *_, **__: pytest.fail("it was sent"))
    for route in ("", 0, [], {}, "video"):
        with pytest.raises(SpecError, match="is none; there are images, chat, videos"):
            server.generate("a car", route=route)
    with pytest.raises(SpecError, match="this model draws images"):
        server.load(wb.Workload("a car", requests=1, route="videos"))
    with pytest.raises(SpecError, match=r"workload='a car' is a str; give workbench.Workload"):
        server.load("a car")


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
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        reply = httpx.post(f"{server.url}/collective_rpc", json=ask, headers=headers)
        assert reply.status_code == 401


def test_who_has_no_token_reads_its_state_and_nothing_else(server: Server, tmp_path: Path) -> None:
    for route in ("/health", "/version", "/metrics", "/v1/models"):
        assert httpx.get(f"{server.url}{route}").status_code == 200
    for route in ("/openapi.json", "/docs", "/server_info", "/is_sleeping", "/v1/videos"):
        assert httpx.get(f"{server.url}{route}").status_code == 401
    adapter = {"lora": {"name": "theirs", "path": str(tmp_path)}}
    drawn = {"prompt": "a car", "num_inference_steps": 1, "size": "64x64", **adapter}
    asked = {"messages": [{"role": "user", "content": "a car"}], **adapter}
    for route, body in {
        "/v1/images/generations": drawn,
        "/v1/chat/completions": asked,
        "/v1/omni/sleep": {"stage_ids": [0]},
    }.items():
        reply = httpx.post(f"{server.url}{route}", json=body)
        assert (reply.status_code, reply.json()["error"]["code"]) == (401, 401)
    form = {"prompt": (None, "a car"), "url": (None, f"{server.url}/health")}
    assert httpx.post(f"{server.url}/v1/images/edits", files=form).status_code == 401
    with pytest.raises(InvalidStatus, match="403"):
        connect(f"ws{server.url.removeprefix('http')}/v1/realtime/video")


def test_the_token_is_written_nowhere(server: Server, drawn: GenerationSet) -> None:
    assert len(server.token) >= 32
    assert server.token not in server.log.read_text()
    assert not any(server.token in word for word in psutil.Process(server.pid).cmdline())
    assert server.token not in (drawn.path / store.MANIFEST).read_text()


def test_a_client_of_openai_draws_the_same_with_the_token(
    server: Server, drawn: GenerationSet
) -> None:
    more = payload("images", "a car", 0, drawn.spec.sampling)
    ask = {"prompt": more.pop("prompt"), "size": more.pop("size"), "extra_body": more}
    url = f"{server.url}/v1"
    with openai.OpenAI(base_url=url, api_key=server.token) as client:
        picture = opened(b64decode(client.images.generate(**ask).data[0].b64_json))
    assert pixel_digest([picture]) == drawn[2].sha256
    with openai.OpenAI(base_url=url, api_key="a guess", max_retries=0) as stranger:
        assert stranger.models.list().data
        with pytest.raises(openai.AuthenticationError, match="Authorization: Bearer TOKEN"):
            stranger.images.generate(**ask)


def test_a_taken_port_is_refused_before_the_start(
    server: Server, tiny_qwen: Path, nothing_starts: None
) -> None:
    with pytest.raises(SpecError, match=f"port={server.port} on 127.0.0.1"):
        wb.serve(str(tiny_qwen), port=server.port)


def test_a_killed_server_is_a_failed_launch_within_seconds(server: Server, runs: Path) -> None:
    """The last one in this file, since it takes the server of the others."""
    os.kill(server.pid, signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(LaunchFailed, match=r"(?s)exit code 137 \(SIGKILL\).*end of its log"):
        server.generate("a car", sampling=STEPS)
    assert time.monotonic() - began < WITHIN_S
    result = server.load(wb.Workload("a car", sampling=STEPS, requests=2))
    assert len(result.failed) == 2
    server.close()
    with pytest.raises(LaunchFailed, match="this server is closed"):
        server.generate("a car", sampling=STEPS)
