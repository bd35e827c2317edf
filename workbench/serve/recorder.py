"""Records what passes through a pipeline, vLLM-Omni's or diffusers': latents, rows of linears."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch

EXPERTS = ("transformer", "transformer_2")
"""Components of a pipeline that denoise."""


class Recorder:
    """Wraps one pipeline for good; between start and finish it keeps what passes.

    Most pipelines step through ``scheduler_step_maybe_with_cfg``; a few call ``scheduler.step``.
    Both are wrapped, and the inner call of a wrapped outer one is not counted twice.
    """

    def __init__(self, pipeline: Any) -> None:
        self.latents: list[torch.Tensor] = []
        self.velocities: list[torch.Tensor] = []
        self.timesteps: list[Any] = []
        self.experts: list[str] = []
        self.enabled = False
        self._ran: dict[str, None] = {}
        self._along: torch.Tensor | None = None
        self._inside = False
        self._wrap(pipeline, "scheduler_step_maybe_with_cfg")
        self._wrap(getattr(pipeline, "scheduler", None), "step")
        for name in EXPERTS:
            if isinstance(expert := getattr(pipeline, name, None), torch.nn.Module):
                expert.register_forward_pre_hook(partial(self._note, name))

    def start(self, along: torch.Tensor | None = None) -> None:
        """Forget what was kept and keep from now on.

        Args:
            along: Latents [steps + 1, ...] of another run. Each step then ends at that run's
                latents, whatever it came to itself, so that the next one begins where that run
                did; what the model predicted is kept as velocities.
        """
        self.latents, self.timesteps, self.velocities, self.experts = [], [], [], []
        self._ran = {}
        self._along = along
        self.enabled = True

    def finish(self) -> dict[str, Any]:
        """Latents, float32 [steps + 1, ...], and timesteps [steps]; they are forgotten here.

        ``experts`` names the component that ran before each step, or is None where none was seen.
        Of a run along another one also ``velocities``, float32 [steps, ...].
        """
        self.enabled = False
        if not self.latents:
            return {}
        kept = {
            "latents": _stacked(self.latents),
            "timesteps": [_number(t) for t in self.timesteps],
            "experts": tuple(self.experts) if all(self.experts) else None,
        }
        if self.velocities:
            kept["velocities"] = _stacked(self.velocities)
        self.start()
        self.enabled = False
        return kept

    @property
    def step(self) -> int:
        """Number of the step that is being taken, from 1."""
        return len(self.timesteps) + 1

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
                return result if self._along is None else self._led_back(noise_pred, result)
            return result

        setattr(owner, name, recorded)

    def _keep(self, t: Any, before: torch.Tensor, result: Any) -> None:
        after = result[0] if isinstance(result, tuple) else result
        if not self.latents:
            self.latents.append(before.detach().clone())
        self.latents.append(after.detach().clone())  # pipelines may write the next step in place
        self.timesteps.append(t)
        self.experts.append("+".join(self._ran))
        self._ran = {}

    def _note(self, name: str, *_: Any) -> None:
        self._ran[name] = None

    def _led_back(self, noise_pred: Any, result: Any) -> Any:
        if torch.is_tensor(noise_pred):  # on one rank of a CFG-parallel pair it may be None
            self.velocities.append(noise_pred.detach().clone())
        own = result[0] if isinstance(result, tuple) else result
        step = len(self.timesteps)
        if step >= len(self._along) or self._along[step].shape != own.shape:
            raise ValueError(
                f"step {step} has latents {tuple(own.shape)}, and the run to follow holds "
                f"{tuple(self._along.shape)}"
            )
        theirs = self._along[step].to(own.device, own.dtype)
        return (theirs, *result[1:]) if isinstance(result, tuple) else theirs


def _stacked(tensors: list[torch.Tensor]) -> Any:
    return torch.stack(tensors).float().cpu().numpy()


def _number(timestep: Any) -> float:
    return float(timestep.flatten()[0]) if torch.is_tensor(timestep) else float(timestep)


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
