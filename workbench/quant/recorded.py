"""Forward calls of a transformer, recorded in a pipeline and made again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from workbench.quant.pipelines import Clock

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments of one forward call of a transformer, by position and by name."""
CALLS = 4
"""Calls of each transformer that a sensitivity is measured on, and prompts that are recorded."""


class CallRecorder:
    """Keeps, on the CPU, the first forward call of each transformer at each step."""

    def __init__(self, models: Mapping[str, nn.Module], clock: Clock) -> None:
        """Record from now on, of the first prompts only."""
        self._calls: dict[str, dict[tuple[int, int], Call]] = {name: {} for name in models}
        self._hooks = [
            model.register_forward_pre_hook(self._record(name, clock), with_kwargs=True)
            for name, model in models.items()
        ]

    def remove(self) -> None:
        """Record no longer."""
        for hook in self._hooks:
            hook.remove()

    def spread(self, component: str, count: int = CALLS) -> Sequence[Call]:
        """Some calls, of different prompts and of steps from first to last."""
        calls = self._calls[component]
        prompts = sorted({prompt for prompt, _ in calls})
        steps = sorted({step for _, step in calls})
        count = min(count, len(calls))
        chosen: dict[tuple[int, int], None] = {}
        for index in range(count):
            step = steps[round(index * (len(steps) - 1) / max(1, count - 1))]
            chosen[prompts[index % len(prompts)], step] = None
        return [calls[key] for key in chosen]

    def _record(self, component: str, clock: Clock) -> Callable[..., None]:
        kept = self._calls[component]

        def record(_: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
            if clock.prompt < CALLS and (clock.prompt, clock.step) not in kept:
                cpu = torch.device("cpu")
                call = (moved(arguments, cpu), moved(options, cpu))
                kept[clock.prompt, clock.step] = call

        return record


def output_error(model: nn.Module, calls: Sequence[Call], outputs: Sequence[Tensor]) -> float:
    """Relative error of the output, root mean square over the calls."""
    total = 0.0
    for call, output in zip(calls, outputs, strict=True):
        difference = torch.linalg.vector_norm(output_of(model, call) - output)
        total += float(difference / torch.linalg.vector_norm(output)) ** 2
    return math.sqrt(total / len(calls))


def output_of(model: nn.Module, call: Call) -> Tensor:
    """What a transformer predicts in one recorded call, float32 on its device."""
    arguments, options = call
    device = next(model.parameters()).device
    result = model(*moved(arguments, device), **moved(options, device))
    return (result[0] if isinstance(result, tuple) else result.sample).float()


def moved(value: Any, device: torch.device) -> Any:
    """A copy of a value with all tensors in it on a device."""
    if isinstance(value, Tensor):
        return value.detach().to(device, copy=True)
    if isinstance(value, dict):
        return {name: moved(one, device) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(moved(one, device) for one in value)
    return value
