"""The load generator with a stand-in for the server: order, concurrency, failures, arithmetic."""

import hashlib
import threading
import time
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

import workbench as wb
from workbench.errors import LaunchFailed, SpecError
from workbench.pixels import pixel_digest
from workbench.serve.load import run
from workbench.serve.server_requests import Answer, check_video
from workbench.videos import decode, encode

PICTURE = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))


def png():
    stream = BytesIO()
    PICTURE.save(stream, format="PNG")
    return stream.getvalue()


def taken(answer):
    """Any answer is what was asked for."""


class Server:
    """Answers after a while, and says how many it had at once."""

    def __init__(self, fails=(), first=1):
        """The ``first`` requests are answered when all of them are there."""
        self.fails, self.most, self._now, self._lock = fails, 0, 0, threading.Lock()
        self._first, self._seen = threading.Barrier(first, timeout=60), 0

    def __call__(self, prompt, seed):
        with self._lock:
            self._now += 1
            self._seen += 1
            early = self._seen <= self._first.parties
            self.most = max(self.most, self._now)
        if early:
            self._first.wait()
        time.sleep(0.02)
        with self._lock:
            self._now -= 1
        if seed in self.fails:
            raise LaunchFailed(f"seed {seed} fails")
        return Answer(pictures=(png(),), stage_durations_s={}, queue_wait_s=0.5), 99


def test_every_request_is_answered_in_turn_with_so_many_in_flight():
    server = Server(first=3)
    workload = wb.Workload(["a", "b"], seeds=(0, 1), concurrency=3, requests=10)
    result = run(workload, server, "BF16", taken)
    assert server.most == 3
    assert [(row.prompt, row.seed) for row in result.rows] == [
        *([("a", 0), ("a", 1), ("b", 0), ("b", 1)] * 2),
        ("a", 0),
        ("a", 1),
    ]
    assert not result.failed
    assert {row.sha256 for row in result.rows} == {pixel_digest([PICTURE])}
    assert {(row.bytes, row.pictures, row.queue_wait_s) for row in result.rows} == {(99, 1, 0.5)}
    assert all(row.received_s > row.sent_s >= 0 for row in result.rows)


def test_throughput_and_latency_are_those_of_the_rows():
    result = run(wb.Workload("a", concurrency=2, requests=8), Server(), "BF16", taken)
    table = result.table()
    elapsed_s = table.received_s.max() - table.sent_s.min()
    assert result.requests_per_s == pytest.approx(8 / elapsed_s)
    assert result.pictures_per_s == pytest.approx(8 / elapsed_s)
    assert result.latency_s["median"] == pytest.approx(table.latency_s.median())
    assert result.latency_s["p90"] == pytest.approx(table.latency_s.quantile(0.9))
    assert result.latency_s["max"] == pytest.approx(table.latency_s.max())
    assert "BF16, 2 in flight: 8 of 8 requests" in str(result)


def test_the_result_says_which_requests_failed_and_counts_them_nowhere():
    workload = wb.Workload("a", seeds=(0, 1, 2), concurrency=2, requests=6)
    result = run(workload, Server(fails=(1,)), "BF16", taken)
    assert [row.index for row in result.failed] == [1, 4]
    assert {row.error for row in result.failed} == {"seed 1 fails"}
    assert len(result.completed) == 4
    assert result.requests_per_s == pytest.approx(4 / result.elapsed_s)
    assert "4 of 6" in str(result)


def test_a_video_that_is_none_or_another_fails_its_request_alone():
    asked = wb.Sampling(num_frames=5, width=16, height=16, fps=8.0)
    videos = [encode([Image.new("RGB", (16, 16))] * frames, 8.0) for frames in (5, 9)]
    answers = [videos[0], b"torn off", videos[1], videos[0]]

    def ask(prompt, seed):
        return Answer(pictures=(answers[seed],), stage_durations_s={}, video=True), 1

    workload = wb.Workload("a", seeds=range(4), concurrency=1, requests=4)
    result = run(workload, ask, "BF16", lambda got: check_video(got.decoded, asked))
    assert [row.index for row in result.failed] == [1, 2]
    assert "the server sent no video: 8 bytes" in result.rows[1].error
    assert "sent 9 frames" in result.rows[2].error
    assert {row.sha256 for row in result.completed} == {pixel_digest(decode(videos[0]).frames)}


def test_a_picture_that_is_torn_off_fails_its_request_alone():
    def ask(prompt, seed):
        return Answer(pictures=(png()[: (-30, None)[seed]],), stage_durations_s={}), 1

    result = run(wb.Workload("a", seeds=(0, 1), requests=2), ask, "BF16", taken)
    assert [row.index for row in result.failed] == [0]
    assert "of no picture" in result.rows[0].error
    assert result.rows[1].sha256 == pixel_digest([PICTURE])


def test_a_load_of_which_nothing_came_back_has_no_latency():
    result = run(wb.Workload("a", requests=2), Server(fails=(0,)), "BF16", taken)
    assert result.requests_per_s == 0
    assert np.isnan(result.latency_s["median"])


@pytest.mark.parametrize(
    "fields", [{"requests": 0}, {"requests": 1, "concurrency": 0}, {"requests": 1, "seeds": (1, 1)}]
)
def test_an_impossible_workload_is_refused(fields):
    with pytest.raises(SpecError):
        wb.Workload("a", **fields)


def test_a_workload_survives_json():
    workload = wb.Workload(["a", "b"], seeds=(3,), concurrency=2, requests=4)
    assert wb.Workload(**workload.model_dump(mode="json")) == workload
    assert len(workload.key) == len(hashlib.sha256().hexdigest()[:12])
