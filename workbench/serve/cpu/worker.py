"""Output of a CPU worker process in request mode.

vLLM-Omni 0.30.0 copies finished pictures to the host on a side stream of the accelerator, in a
thread; without an accelerator that thread dies and the request never returns.
"""

from __future__ import annotations

import logging

from vllm_omni.diffusion.ipc import pack_diffusion_output_shm
from vllm_omni.diffusion.worker import diffusion_worker
from vllm_omni.diffusion.worker.diffusion_worker import WorkerProc

logger = logging.getLogger(__name__)


def register() -> None:
    """Replace the thread's loop by one that needs no stream."""
    WorkerProc._async_output_loop = _output_loop


def _output_loop(self: WorkerProc) -> None:
    while (item := self._async_output_queue.get()) is not None:
        output, output_id, _ = item
        try:
            self._enqueue_result(_ready(output, output_id))
        finally:
            with self._async_output_done:
                self._async_output_pending = max(0, self._async_output_pending - 1)
                self._async_output_done.notify_all()


def _ready(output: object, output_id: str) -> diffusion_worker.AsyncDiffusionOutput:
    kind = diffusion_worker.AsyncOutputKind.OUTPUT_READY
    try:
        pack_diffusion_output_shm(output)
    except Exception as error:  # whatever it is, the waiting request must hear of it
        logger.exception("could not pack output %s", output_id)
        return diffusion_worker.AsyncDiffusionOutput(
            kind=kind, async_output_id=output_id, error=repr(error)
        )
    return diffusion_worker.AsyncDiffusionOutput(
        kind=kind, async_output_id=output_id, output=output
    )
