"""What one load or request makes a pipeline do: passes by batch size, time by component.

Runs inside the workers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from workbench.serve.modules import TRANSFORMERS

TIMED = ("text_encoder", "image_encoder", *TRANSFORMERS)
DECODE = "vae.decode"


class Meter:
    """Hooked into a pipeline from its making until :meth:`finish`.

    Args:
        pipeline: Its transformers are counted; text encoders, transformers and VAE are timed.
        synchronize: Waits for the device, around every timed call; None times nothing.
    """

    def __init__(self, pipeline: Any, synchronize: Callable[[], None] | None = None) -> None:
        self.batches: Counter[int] = Counter()
        self.stages_s: Counter[str] = Counter()
        self._synchronize = synchronize
        self._began: dict[str, float] = {}
        self._undo: list[Callable[[], None]] = []
        for name, child in pipeline.named_children():
            if name in TRANSFORMERS:
                hook = child.register_forward_pre_hook(self._count, with_kwargs=True)
                self._undo.append(hook.remove)
            if synchronize is not None and name.startswith(TIMED):
                self._time(name, child)
        if synchronize is not None and hasattr(getattr(pipeline, "vae", None), "decode"):
            self._time_decoding(pipeline.vae)

    def finish(self) -> dict[str, Any]:
        """``batches`` (pictures in a pass -> passes) and ``stages_s``; the hooks are taken off."""
        for undo in self._undo:
            undo()
        self._undo = []
        return {"batches": dict(self.batches), "stages_s": dict(self.stages_s)}

    def _count(
        self, module: torch.nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        given = (named.get("hidden_states"), *inputs, *named.values())
        tensor = next((value for value in given if torch.is_tensor(value)), None)
        if tensor is not None:
            self.batches[len(tensor)] += 1

    def _time(self, name: str, child: torch.nn.Module) -> None:
        before = child.register_forward_pre_hook(lambda *_: self._start(name))
        after = child.register_forward_hook(lambda *_: self._stop(name))
        self._undo += [before.remove, after.remove]

    def _time_decoding(self, vae: torch.nn.Module) -> None:
        decode = vae.decode

        def timed(*inputs: Any, **named: Any) -> Any:
            self._start(DECODE)
            try:
                return decode(*inputs, **named)
            finally:
                self._stop(DECODE)

        vae.decode = timed
        self._undo.append(lambda: delattr(vae, "decode"))

    def _start(self, name: str) -> None:
        self._wait()
        self._began[name] = time.perf_counter()

    def _stop(self, name: str) -> None:
        self._wait()
        self.stages_s[name] += time.perf_counter() - self._began.pop(name)

    def _wait(self) -> None:
        if self._synchronize is not None:
            self._synchronize()
