"""Memory peaks of a worker: of the load, and of all requests since a mark. Runs in the workers.

vLLM-Omni starts a new peak with every request (diffusion/worker/diffusion_model_runner.py:802), and
with the request that warms it up, so that the peak of the load is gone before anyone could ask.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from vllm_omni.diffusion.worker.diffusion_model_runner import DiffusionModelRunner
from vllm_omni.platforms import current_omni_platform

_load_peak: int | None = None


def register() -> None:
    """Keep the peak of every load from now on; again is harmless."""
    load = DiffusionModelRunner.load_model
    if hasattr(load, "__wrapped__"):
        return

    @wraps(load)
    def watched(self: Any, *arguments: Any, **options: Any) -> None:
        global _load_peak
        keeps_books = current_omni_platform.is_cuda()
        if keeps_books:
            current_omni_platform.reset_peak_memory_stats()
        load(self, *arguments, **options)
        _load_peak = current_omni_platform.max_memory_allocated() if keeps_books else None

    DiffusionModelRunner.load_model = watched


def load_peak() -> int | None:
    """Highest allocated bytes during this worker's last load; None on CPU."""
    return _load_peak


class RequestPeaks:
    """The highest of all peaks from its making until :meth:`finish`."""

    def __init__(self) -> None:
        self.allocated = self.reserved = 0
        self._reset = current_omni_platform.reset_peak_memory_stats
        self._reset()
        current_omni_platform.reset_peak_memory_stats = self._kept_and_reset

    def finish(self) -> dict[str, int]:
        """``allocated`` and ``reserved`` bytes."""
        self._keep()
        current_omni_platform.reset_peak_memory_stats = self._reset
        return {"allocated": self.allocated, "reserved": self.reserved}

    def _kept_and_reset(self, *arguments: Any) -> None:
        self._keep()
        self._reset(*arguments)

    def _keep(self) -> None:
        self.allocated = max(self.allocated, current_omni_platform.max_memory_allocated())
        self.reserved = max(self.reserved, current_omni_platform.max_memory_reserved())
