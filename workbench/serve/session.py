"""A running vLLM-Omni with one model: started, proved, asked for pictures, closed."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.audits import Audit
from workbench.errors import LaunchFailed, WorkbenchError
from workbench.serve import omni
from workbench.serve.guards import check_launch
from workbench.serve.proved_audit import proved_audit
from workbench.specs import LaunchSpec, Sampling
from workbench.zoo.families import family_of

if TYPE_CHECKING:
    from PIL import Image

logger = logging.getLogger(__name__)


class Session(AbstractContextManager):
    """What :class:`Engine` draws with. Closing it frees the model.

    A request that was interrupted closes the engine inside, and the next one starts it again.
    """

    def __init__(self, spec: LaunchSpec, folder: Path) -> None:
        self.spec = spec
        self.folder = folder
        self.family = family_of(folder)
        self.load_s = 0.0
        self.device_used_before: list[int] = []
        """Bytes in use on each GPU before the launch, an inline worker's CUDA context apart."""
        self.drawn: set[Sampling] = set()
        """What this engine has been asked for since it started; another one is cold."""
        self._held_before = 0
        self._omni: Any = None
        self._workers: list[BaseProcess] = []
        self._closed = False
        check_launch(spec, self.family, folder)
        self.audit: Audit
        self._start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the workers and free the model; again is harmless."""
        self._closed = True
        self._stop()

    def _request(
        self,
        prompt: str,
        seed: int,
        sampling: Sampling,
        image: Image.Image | None = None,
        *,
        along: str = "",
        watch: tuple[int, list[int]] | None = None,
    ) -> tuple[Any, dict[str, Any], float]:
        """The engine's output, what the worker recorded, and the wall time in seconds."""
        with self._running(f"on {prompt!r} with seed {seed}") as engine:
            counting = self.spec.enforce_eager and self.audit.flops_coverage is None
            omni.call(engine, "workbench_start", True, counting, along)
            if watch is not None:
                omni.call(engine, "workbench_watch_layers", *watch)
            began = time.perf_counter()
            output = omni.request(engine, prompt, seed, sampling, image)
            elapsed_s = time.perf_counter() - began
            trace = omni.call(engine, "workbench_finish")
            if trace["rows"] is not None:
                self.audit = self.audit.counted(trace["rows"])
            self.drawn.add(sampling)
            return output, trace, elapsed_s

    @contextmanager
    def _running(self, doing: str) -> Iterator[Any]:
        """The engine, started if need be; whatever goes wrong with it stops it."""
        if self._closed:
            raise LaunchFailed("this engine is closed; launch the model again")
        if self._omni is None:
            self._start()
        try:
            yield self._omni
        except BaseException as error:  # an interrupt too leaves a request inside the engine
            self._stop(abandoned=True)
            if isinstance(error, Exception):
                raise LaunchFailed(
                    f"{self.spec.precision} failed {doing}: {error}; what was finished is kept, "
                    "and the same call goes on with a fresh engine"
                ) from error
            raise

    def _start(self) -> None:
        began = time.perf_counter()
        try:
            self.device_used_before = omni.used_before(self.spec)
            self._held_before = omni.held_bytes(self.spec)
            self._omni, self._workers = omni.start(self.folder, self.spec)
            self.audit = proved_audit(self.spec, self.folder, self.family, self._call)
        except BaseException as error:
            self._stop(abandoned=True)
            if isinstance(error, WorkbenchError) or not isinstance(error, Exception):
                raise
            raise LaunchFailed(
                f"vLLM-Omni did not start {self.folder} at {self.spec.precision}: {error}"
            ) from error
        self.load_s = time.perf_counter() - began
        logger.info("%s", self.audit)

    def call_workers(self, method: str, *arguments: Any) -> Any:
        """Run a method of the worker extension on every rank; the answer of rank 0.

        Raises:
            LaunchFailed: the engine is closed, or died in it.
        """
        with self._running(f"in {method}"):
            return self._call(method, *arguments)

    def release_memory(self) -> None:
        """Let the allocators go of what they keep of earlier requests."""
        self.call_workers("workbench_release")

    def _call(self, method: str, *arguments: Any) -> Any:
        return omni.call(self._omni, method, *arguments)

    def _stop(self, *, abandoned: bool = False) -> None:
        if self._omni is None:
            return
        engine, self._omni = self._omni, None
        self.drawn.clear()
        omni.close(engine, self._workers, abandoned=abandoned)
        del engine  # else its worker survives the collection
        omni.give_memory_back()
