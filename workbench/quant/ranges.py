"""Largest absolute input of each linear, denoising step by denoising step."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from workbench import zoo
from workbench.errors import QuantizationFailed
from workbench.first_frames import warn_of_scaled
from workbench.quant.calls import input_images
from workbench.quant.checks import calibration_fits
from workbench.quant.pipelines import Clock, linear_modules, load_pipeline, run_prompts
from workbench.recipes import Calibration
from workbench.specs import ModelRef
from workbench.zoo.families import family_of

if TYPE_CHECKING:
    import pandas as pd

FILE = "activation_ranges.json"


def activation_ranges(model: ModelRef | str, calibration: Calibration) -> pd.DataFrame:
    """How large the inputs of each linear get at each denoising step, over all prompts.

    The 16-bit pipeline runs in diffusers, on the GPU if there is one, without decoding.

    Args:
        model: 16-bit pipeline, embedded, local or on the hub; a string is its source.
        calibration: Prompts, steps, size, guidance and seed of the runs.

    Returns:
        One row a linear and step: component, name, step (from 0), timestep (the scheduler's, of
        the last prompt), amax (largest absolute input).

    Raises:
        ModelNotFound: no pipeline there, or of an unknown family.
        SpecError: a size that the model would cut, images that cannot be used, or none where it
            begins with one.
        QuantizationFailed: a run failed, or an input was not finite.
    """
    import pandas as pd

    reference = model if isinstance(model, ModelRef) else ModelRef(model)
    source = zoo.locate(reference)
    family = family_of(source)
    calibration_fits(calibration, source)
    warn_of_scaled(filter(None, input_images(source, calibration)), stacklevel=3)
    pipeline = load_pipeline(source, trust=reference.trust_remote_code)
    parts = {name: getattr(pipeline, name, None) for name in family.transformers}
    models = {name: part for name, part in parts.items() if part is not None}
    clock = Clock()
    recorder = RangeRecorder(models, clock)
    try:
        run_prompts(pipeline, source, calibration, clock)
    finally:
        recorder.remove()
    return pd.DataFrame(recorder.rows())


class RangeRecorder:
    """Watches the inputs of linears while a pipeline runs."""

    def __init__(
        self,
        models: Mapping[str, nn.Module],
        clock: Clock,
        names: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """Watch from now on.

        Args:
            models: Component -> transformer.
            clock: Says which step it is.
            names: Component -> linears to watch; None watches all.
        """
        self._since: dict[tuple[str, str], Tensor] = {}
        self._table: dict[tuple[str, str, int], tuple[float, float]] = {}
        self._hooks = [
            module.register_forward_pre_hook(self._note(component, name))
            for component, model in models.items()
            for name, module in linear_modules(model).items()
            if names is None or name in names[component]
        ]
        clock.listeners.append(self._close)

    def remove(self) -> None:
        """Watch no longer."""
        for hook in self._hooks:
            hook.remove()

    def rows(self) -> list[dict[str, Any]]:
        """Component, name, step, timestep and amax, in the order of first use."""
        return [
            {"component": component, "name": name, "step": step, "timestep": time, "amax": amax}
            for (component, name, step), (time, amax) in self._table.items()
        ]

    def largest(self) -> dict[str, dict[str, float]]:
        """Component -> linear -> largest absolute input of all steps."""
        found: dict[str, dict[str, float]] = {}
        for (component, name, _), (_, amax) in self._table.items():
            known = found.setdefault(component, {})
            known[name] = max(amax, known.get(name, 0.0))
        return found

    def _note(self, component: str, name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        key = (component, name)

        def note(_: nn.Module, arguments: tuple[Tensor, ...]) -> None:
            amax = arguments[0].detach().abs().amax().float()
            known = self._since.get(key)
            self._since[key] = amax if known is None else torch.maximum(known, amax)

        return note

    def _close(self, prompt: int, step: int, timestep: float) -> None:
        """A step is over: one transfer from the device for all linears of it."""
        if not self._since:
            return
        amaxes = torch.stack(list(self._since.values())).tolist()
        for (component, name), amax in zip(self._since, amaxes, strict=True):
            if not math.isfinite(amax):
                raise QuantizationFailed(
                    f"the input of {component}.{name} is {amax} at step {step} of prompt "
                    f"{prompt + 1}, in bfloat16 before any quantization; check the weights"
                )
            known = self._table.get((component, name, step), (timestep, 0.0))
            self._table[component, name, step] = (timestep, max(amax, known[1]))
        self._since.clear()
