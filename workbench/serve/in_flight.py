"""Several requests at once inside one ``Omni``, each sent as soon as an earlier one is answered.

``Omni.generate`` sends a list at once and gives all of it the same seed, so this drives the engine
one level below, as that method does (vllm_omni 0.30.0, entrypoints/omni.py:100-228).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import cycle, islice, product
from typing import TYPE_CHECKING, Any

from workbench.pixels import pixel_digest
from workbench.serve import omni
from workbench.serve.drawing import seconds
from workbench.serve.media import frames_of
from workbench.serve.requests import AskedLoad
from workbench.specs import Sampling
from workbench.speed import LoadResult, RequestRow

if TYPE_CHECKING:
    from PIL import Image

SCHEDULER_WAIT = "scheduler_queue_wait_s"
"""Of the diffusion stage (vllm_omni/metrics/stats.py:752)."""


class InFlight:
    """The client's side of an ``Omni``: requests out, answers in the order in which they end."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._sent: dict[str, float] = {}

    def send(
        self, prompt: str, seed: int, sampling: Sampling, image: Image.Image | None = None
    ) -> str:
        """Hand a request over, with the first frame of its video; its id."""
        from vllm_omni.entrypoints.client_request_state import ClientRequestState
        from vllm_omni.metrics.stats import OrchestratorAggregator

        engine, name = self._engine, str(uuid.uuid4())
        text, parameters = omni.asked(prompt, seed, sampling, image)
        last = engine._compute_final_stage_id(None)
        state = ClientRequestState(name)
        state.metrics = OrchestratorAggregator(
            engine.num_stages, engine.log_stats, time.time(), last
        )
        engine.request_states[name] = state
        engine.engine.add_request(
            request_id=name,
            prompt=text,
            sampling_params_list=engine.resolve_sampling_params_list(parameters),
            final_stage_id=last,
            final_output_stage_ids=engine._compute_final_output_stage_ids(None) or [last],
        )
        self._sent[name] = state.metrics.stage_first_ts[0] = time.time()
        return name

    def answer(self) -> tuple[str, Any, float | None]:
        """The next request to end: its id, its output, the seconds until it was scheduled."""
        from vllm_omni.engine.messages import OutputMessage

        engine = self._engine
        while True:
            message = engine.engine.try_get_output()
            passed_over, name, stage, state = engine._handle_output_message(message)
            if passed_over or name not in self._sent:
                continue
            engine._check_engine_output_error(message, name, stage)
            output = engine._process_single_result(
                result=message,
                stage_id=stage,
                metrics=state.metrics,
                req_start_ts=self._sent,
                wall_start_ts=self._sent[name],
                final_stage_id_for_e2e=engine._compute_final_stage_id(None),
            )
            if isinstance(message, OutputMessage) and message.finished:
                engine._log_summary_and_cleanup(name)
                del self._sent[name]
                return name, output, _wait(message)


def run(engine: Any, asked: AskedLoad, precision: str) -> LoadResult:
    """Send all requests of a workload, each as soon as one in flight is answered.

    Args:
        engine: An ``Omni``.
        asked: How many, and of what.
        precision: Of the engine, for tables.

    Raises:
        Exception: whatever ends the engine; a load has no half.
    """
    workload, images = asked
    pairs = cycle(product(workload.prompts.prompts, workload.seeds))
    waiting: Iterator[tuple[int, tuple[str, int]]] = enumerate(islice(pairs, workload.requests))
    client, sent, began = InFlight(engine), {}, time.monotonic()
    rows: list[Future[RequestRow]] = []

    def send() -> None:
        if (request := next(waiting, None)) is not None:
            index, (prompt, seed) = request
            facts = {"index": index, "prompt": prompt, "seed": seed}
            facts["sent_s"] = time.monotonic() - began
            image = images[prompt].picture if images else None
            sent[client.send(prompt, seed, workload.sampling, image)] = facts

    # Digests are taken beside the loop, so that nothing waits for them between two requests.
    with ThreadPoolExecutor(1) as digests:
        for _ in range(workload.concurrency):
            send()
        while sent:
            name, output, wait = client.answer()
            facts = sent.pop(name)
            facts |= {"received_s": time.monotonic() - began, "queue_wait_s": wait}
            send()
            rows.append(digests.submit(_row, facts, output))
    done = sorted((row.result() for row in rows), key=lambda row: row.index)
    return LoadResult(workload=workload, precision=precision, rows=tuple(done))


def _row(facts: dict[str, Any], output: Any) -> RequestRow:
    return RequestRow(
        **facts,
        stage_durations_s=seconds(output.stage_durations),
        pictures=len(output.images),
        sha256=pixel_digest(frames_of(output.images[0])),
    )


def _wait(message: Any) -> float | None:
    own = getattr(message.metrics, "diffusion_metrics", None) or {}
    return own.get(SCHEDULER_WAIT)
