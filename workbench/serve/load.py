"""A server under load: a fixed number of requests in flight, and what each of them took."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import LaunchFailed
from workbench.serve.media import frames_of, pixel_digest
from workbench.serve.server_requests import Answer, opened
from workbench.specs import Workload

if TYPE_CHECKING:
    import pandas as pd

Ask = Callable[[str, int], tuple[Answer, int]]
"""Prompt and seed -> the answer and its size in bytes, as it came over the wire."""
QUEUE = "queue_wait"
"""Of the stage durations (vllm_omni/engine/orchestrator.py:2846)."""


@dataclass(frozen=True, kw_only=True)
class RequestRow:
    """One request. Times are seconds since the load began, by a clock that never jumps."""

    index: int
    """In the order of sending."""
    prompt: str
    seed: int
    sent_s: float
    received_s: float
    """When the last byte was there; of a failed one, when that was known."""
    queue_wait_s: float | None = None
    """From arrival until it was handed to the engine; None if the server does not say."""
    stage_durations_s: dict[str, float]
    """The engine's own split. While another request is drawn, the wait for it is in here too."""
    bytes: int = 0
    """Of the answer, as it came over the wire."""
    pictures: int = 0
    sha256: str = ""
    """Of the first picture's pixels."""
    error: str = ""
    """Why it failed; empty if it did not."""

    @property
    def latency_s(self) -> float:
        """From sending to the last byte."""
        return self.received_s - self.sent_s


@dataclass(frozen=True, kw_only=True)
class LoadResult:
    """What a load showed. Failed requests are in the rows, and in no latency or throughput."""

    workload: Workload
    precision: str
    rows: tuple[RequestRow, ...]

    @property
    def completed(self) -> tuple[RequestRow, ...]:
        """The requests that brought a picture."""
        return tuple(row for row in self.rows if not row.error)

    @property
    def failed(self) -> tuple[RequestRow, ...]:
        """The requests that did not, each with its error."""
        return tuple(row for row in self.rows if row.error)

    @property
    def elapsed_s(self) -> float:
        """From the first request sent to the last answer."""
        return max(row.received_s for row in self.rows) - min(row.sent_s for row in self.rows)

    @property
    def requests_per_s(self) -> float:
        """Completed requests a second."""
        return len(self.completed) / self.elapsed_s

    @property
    def pictures_per_s(self) -> float:
        """Pictures a second."""
        return sum(row.pictures for row in self.completed) / self.elapsed_s

    @property
    def latency_s(self) -> dict[str, float]:
        """``median``, ``p90`` and ``max`` of the completed requests; NaN if there are none."""
        times = [row.latency_s for row in self.completed] or [np.nan]
        median, p90 = np.quantile(times, (0.5, 0.9))
        return {"median": float(median), "p90": float(p90), "max": float(max(times))}

    def table(self) -> pd.DataFrame:
        """One row a request: the fields of :class:`RequestRow`, and latency_s."""
        import pandas as pd

        return pd.DataFrame([{**asdict(row), "latency_s": row.latency_s} for row in self.rows])

    def __str__(self) -> str:
        times = ", ".join(f"{name} {value:.3g} s" for name, value in self.latency_s.items())
        return (
            f"{self.precision}, {self.workload.concurrency} in flight: {len(self.completed)} of "
            f"{len(self.rows)} requests in {self.elapsed_s:.3g} s, {self.requests_per_s:.3g} "
            f"requests/s, {self.pictures_per_s:.3g} pictures/s; latency {times}"
        )


def run(workload: Workload, ask: Ask, precision: str) -> LoadResult:
    """Send all requests of a workload, each as soon as one in flight is answered.

    Args:
        workload: How many, and of what.
        ask: Draws one picture; called from ``workload.concurrency`` threads.
        precision: Of the server, for tables.
    """
    began = time.monotonic()
    order = iter(range(workload.requests))
    turn = threading.Lock()
    pairs = list(product(workload.prompts.prompts, workload.seeds))

    def client() -> list[Future[RequestRow]]:
        rows = []
        while True:
            with turn:
                index = next(order, None)
            if index is None:
                return rows
            rows.append(_one(index, pairs[index % len(pairs)], ask, began, digests))

    # Digests are taken beside the clients, so that no client pauses between two requests.
    with ThreadPoolExecutor(1) as digests, ThreadPoolExecutor(workload.concurrency) as clients:
        started = [clients.submit(client) for _ in range(workload.concurrency)]
        rows = [row.result() for one in started for row in one.result()]
    return LoadResult(
        workload=workload,
        precision=precision,
        rows=tuple(sorted(rows, key=lambda row: row.index)),
    )


def _one(
    index: int, pair: tuple[str, int], ask: Ask, began: float, digests: ThreadPoolExecutor
) -> Future[RequestRow]:
    facts: dict[str, Any] = {"index": index, "prompt": pair[0], "seed": pair[1]}
    facts["sent_s"] = time.monotonic() - began
    got: tuple[Answer, int] | LaunchFailed
    try:
        got = ask(*pair)
    except LaunchFailed as error:
        got = error
    facts["received_s"] = time.monotonic() - began
    return digests.submit(_row, facts, got)


def _row(facts: dict[str, Any], got: tuple[Answer, int] | LaunchFailed) -> RequestRow:
    if isinstance(got, LaunchFailed):
        return RequestRow(**facts, stage_durations_s={}, error=str(got))
    answer, size = got
    return RequestRow(
        **facts,
        queue_wait_s=answer.stage_durations_s.get(QUEUE),
        stage_durations_s=answer.stage_durations_s,
        bytes=size,
        pictures=len(answer.pictures),
        sha256=pixel_digest(frames_of(opened(answer.pictures[0]))),
    )
