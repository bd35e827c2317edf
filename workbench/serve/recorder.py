"""Records what passes through a pipeline, vLLM-Omni's or diffusers': latents, rows of linears."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


class Recorder:
    """Wraps one pipeline for good; between start and finish it keeps what passes.

    Most pipelines step through ``scheduler_step_maybe_with_cfg``; a few call ``scheduler.step``.
    Both are wrapped, and the inner call of a wrapped outer one is not counted twice.
    """

    def __init__(self, pipeline: Any) -> None:
        self.latents: list[torch.Tensor] = []
        self.timesteps: list[Any] = []
        self.enabled = False
        self._inside = False
        self._wrap(pipeline, "scheduler_step_maybe_with_cfg")
        self._wrap(getattr(pipeline, "scheduler", None), "step")

    def start(self) -> None:
        """Forget what was kept and keep from now on."""
        self.latents, self.timesteps = [], []
        self.enabled = True

    def finish(self) -> dict[str, Any]:
        """Latents, float32 [steps + 1, ...], and timesteps [steps]; they are forgotten here."""
        self.enabled = False
        if not self.latents:
            return {}
        latents = torch.stack(self.latents).float().cpu().numpy()
        timesteps = [
            float(t.flatten()[0]) if torch.is_tensor(t) else float(t) for t in self.timesteps
        ]
        self.latents, self.timesteps = [], []
        return {"latents": latents, "timesteps": timesteps}

    def _wrap(self, owner: Any, name: str) -> None:
        step = getattr(owner, name, None)
        if step is None:
            return

        def recorded(
            noise_pred: Any, t: Any, latents: torch.Tensor, *rest: Any, **named: Any
        ) -> Any:
            outermost, self._inside = not self._inside, True
            try:
                result = step(noise_pred, t, latents, *rest, **named)
            finally:
                self._inside = not outermost
            if outermost and self.enabled:
                self._keep(t, latents, result)
            return result

        setattr(owner, name, recorded)

    def _keep(self, t: Any, before: torch.Tensor, result: Any) -> None:
        after = result[0] if isinstance(result, tuple) else result
        if not self.latents:
            self.latents.append(before.detach().clone())
        self.latents.append(after.detach().clone())  # pipelines may write the next step in place
        self.timesteps.append(t)


class RowCounter:
    """Counts the inputs that each linear multiplies, from its making until :meth:`finish`."""

    def __init__(self, linears: Iterable[tuple[str, torch.nn.Module]]) -> None:
        self.rows: dict[str, int] = {}
        self._hooks = [
            module.register_forward_pre_hook(self._counting(name), with_kwargs=True)
            for name, module in linears
        ]

    def finish(self) -> dict[str, int]:
        """Rows by linear; those that multiplied nothing are left out. The hooks are taken off."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        return self.rows

    def _counting(self, name: str) -> Any:
        def count(module: torch.nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
            given = (*inputs, *named.values())
            rows = next(value.shape[:-1].numel() for value in given if torch.is_tensor(value))
            self.rows[name] = self.rows.get(name, 0) + rows

        return count
