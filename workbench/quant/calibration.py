"""One pass of the user's prompts through the pipeline, and all that is learnt on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from workbench.errors import QuantizationFailed
from workbench.quant import ranges, sensitivity
from workbench.quant.pipelines import Clock, load_pipeline, run_prompts
from workbench.quant.plan import Plan
from workbench.quant.recorded import CallRecorder
from workbench.quant.sensitivity import Fake, Sensitivity
from workbench.recipes import MIXES, QuantRecipe
from workbench.schemes import SCHEMES

Observer = Callable[
    [Mapping[str, nn.Module], Plan, Callable[[], None]], dict[str, dict[str, float]]
]
"""(transformers, plan, function that runs the prompts) -> component -> linear -> amax of inputs."""


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """What a pass of the prompts gave."""

    plan: Plan
    """With the schemes that a sensitivity chose."""
    inputs: dict[str, dict[str, float]]
    """Component -> linear -> largest absolute input."""
    tables: dict[str, list[dict[str, Any]]]
    """File name -> rows of a table."""


def calibrate(
    source: Path,
    recipe: QuantRecipe,
    plan: Plan,
    *,
    fakes: Mapping[str, Fake],
    observer: Observer | None = None,
    trust: bool = False,
) -> Calibrated:
    """Run the recipe's prompts through the 16-bit pipeline and watch its transformers.

    Args:
        source: Pipeline in diffusers layout.
        recipe: With a calibration; with ``effective_bits`` the plan's schemes are chosen.
        plan: The linears to watch.
        fakes: Numerics of the schemes that are mixed.
        observer: Calibrates by a library of its own; None takes what :mod:`ranges` records.
        trust: Run code that the model folder brings along.

    Raises:
        QuantizationFailed: a run failed, never reached a layer, or gave values not finite.
    """
    pipeline = load_pipeline(source, trust=trust)
    models = {component: getattr(pipeline, component) for component in plan.layers}
    clock = Clock()
    recorder = ranges.RangeRecorder(models, clock, plan.layers)
    calls = CallRecorder(models, clock) if recipe.effective_bits is not None else None

    def run() -> None:
        try:
            run_prompts(pipeline, source, recipe.calibration, clock)
        finally:
            recorder.remove()
            if calls:
                calls.remove()

    inputs = observer(models, plan, run) if observer else _plainly(recorder, plan, run)
    tables = {ranges.FILE: recorder.rows()}
    if calls:
        mixed = {name: fakes[name] for name in MIXES[recipe.method]}
        found = _measured(plan, models, calls, mixed, inputs)
        plan, tables[sensitivity.FILE] = _split(recipe, plan, found)
    return Calibrated(plan=plan, inputs=inputs, tables=tables)


def _plainly(
    recorder: ranges.RangeRecorder, plan: Plan, run: Callable[[], None]
) -> dict[str, dict[str, float]]:
    run()
    found = recorder.largest()
    for component, layers in plan.layers.items():
        for name in layers:
            if name not in found.get(component, {}):
                raise QuantizationFailed(
                    f"no calibration run reached {component}.{name}, so nothing is known of its "
                    f"inputs; give more prompts or steps, or ignore=[{name!r}]"
                )
    return found


def _measured(
    plan: Plan,
    models: Mapping[str, nn.Module],
    calls: CallRecorder,
    fakes: Mapping[str, Fake],
    inputs: Mapping[str, Mapping[str, float]],
) -> list[Sensitivity]:
    return [
        one
        for component, model in models.items()
        for one in sensitivity.measure(
            component,
            model,
            calls.spread(component),
            sensitivity.groups_of(plan, component),
            fakes,
            amax=inputs[component],
        )
    ]


def _split(
    recipe: QuantRecipe, plan: Plan, found: Sequence[Sensitivity]
) -> tuple[Plan, list[dict[str, Any]]]:
    small, large = MIXES[recipe.method]
    bits = {name: SCHEMES[name].bits for name in (small, large)}
    chosen = sensitivity.choose(
        found, bits, small=small, large=large, effective_bits=recipe.effective_bits
    )
    rows = [one.row(chosen[one.component, one.group]) for one in found]
    return sensitivity.decided(plan, found, chosen), rows
