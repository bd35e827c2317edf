"""A server under load: a fixed number of requests in flight, and what each of them took."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import product
from typing import Any

from workbench.errors import LaunchFailed
from workbench.pixels import pixel_digest
from workbench.serve.server_requests import Answer
from workbench.specs import Workload
from workbench.speed import LoadResult, RequestRow

Ask = Callable[[str, int], tuple[Answer, int]]
"""Prompt and seed -> the answer and its size in bytes, as it came over the wire."""
Check = Callable[[Answer], None]
"""Raises LaunchFailed for an answer that is not what was asked for."""
Got = tuple[Answer, int] | LaunchFailed
Judge = Callable[[dict[str, Any], Got], Future[RequestRow]]


def run(workload: Workload, ask: Ask, precision: str, check: Check) -> LoadResult:
    """Send all requests of a workload, each as soon as one in flight is answered.

    Args:
        workload: How many, and of what.
        ask: Draws one picture; called from ``workload.concurrency`` threads.
        precision: Of the server, for tables.
        check: Called with each answer beside the clients; what it refuses is a failed request.
    """
    began = time.monotonic()
    order = iter(range(workload.requests))
    turn = threading.Lock()
    pairs = list(product(workload.prompts.prompts, workload.seeds))
    threads = min(workload.concurrency, workload.requests)

    def client() -> list[Future[RequestRow]]:
        rows = []
        while True:
            with turn:
                index = next(order, None)
            if index is None:
                return rows
            rows.append(_one(index, pairs[index % len(pairs)], ask, began, judge))

    # Digests are taken beside the clients, so that no client pauses between two requests.
    with ThreadPoolExecutor(1) as digests, ThreadPoolExecutor(threads) as clients:
        judge = partial(digests.submit, _row, check)
        started = [clients.submit(client) for _ in range(threads)]
        rows = [row.result() for one in started for row in one.result()]
    return LoadResult(
        workload=workload,
        precision=precision,
        rows=tuple(sorted(rows, key=lambda row: row.index)),
    )


def _one(
    index: int, pair: tuple[str, int], ask: Ask, began: float, judge: Judge
) -> Future[RequestRow]:
    facts: dict[str, Any] = {"index": index, "prompt": pair[0], "seed": pair[1]}
    facts["sent_s"] = time.monotonic() - began
    got: Got
    try:
        got = ask(*pair)
    except LaunchFailed as error:
        got = error
    facts["received_s"] = time.monotonic() - began
    return judge(facts, got)


def _row(check: Check, facts: dict[str, Any], got: Got) -> RequestRow:
    try:
        return _checked(check, facts, got)
    except LaunchFailed as error:
        return RequestRow(**facts, stage_durations_s={}, error=str(error))


def _checked(check: Check, facts: dict[str, Any], got: Got) -> RequestRow:
    if isinstance(got, LaunchFailed):
        raise got
    answer, size = got
    check(answer)
    return RequestRow(
        **facts,
        queue_wait_s=answer.queue_wait_s,
        stage_durations_s=answer.stage_durations_s,
        bytes=size,
        pictures=len(answer.pictures),
        sha256=pixel_digest(answer.frames),
    )
