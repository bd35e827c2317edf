"""Which layers suffer most from the small scheme, measured, and who gets the large one.

The measure is the error of the whole transformer's output when a single layer is quantized, on
inputs recorded in calibration. Squared errors of layers are taken to add up, as those of
independent noise do (as in HAWQ-V2, https://arxiv.org/abs/1911.03852): then the layers to
put in the small scheme are those of least squared error gained per byte saved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from workbench.errors import QuantizationFailed
from workbench.quant.pipelines import linear_modules
from workbench.quant.plan import Plan
from workbench.quant.recorded import Call, output_error, output_of
from workbench.zoo.names import runtime_name, siblings

FILE = "sensitivity.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fake:
    """A scheme by its numerics: what it makes of weights and of inputs, in ordinary tensors."""

    weights: Callable[[Sequence[Tensor]], Sequence[Tensor]]
    """Weights [out, in] of the linears of one layer -> the same, rounded; they may share scales."""
    inputs: Callable[[Tensor, float], Tensor] | None = None
    """(inputs [..., in], their largest absolute value in calibration) -> the same, rounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """What each scheme does to a transformer's output if only one layer is in it."""

    component: str
    group: str
    """The layer as the engine calls it."""
    linears: tuple[str, ...]
    """Those of the file that it holds."""
    parameters: int
    errors: dict[str, float]
    """Scheme -> relative error of the output, root mean square over the calls."""

    def row(self, chosen: str) -> dict[str, Any]:
        """As a row of a table, with the scheme that was chosen."""
        facts = asdict(self)
        errors = {f"error_{name}": error for name, error in facts.pop("errors").items()}
        return {**facts, "linears": list(self.linears), **errors, "scheme": chosen}


def groups_of(plan: Plan, component: str) -> dict[str, tuple[str, ...]]:
    """Layer as the engine calls it -> the planned linears of the file that it holds."""
    layers = plan.layers[component]
    return {
        runtime_name(plan.preset, name): tuple(
            one for one in siblings(plan.preset, name) if one in layers
        )
        for name in layers
    }


def measure(
    component: str,
    model: nn.Module,
    calls: Sequence[Call],
    groups: Mapping[str, tuple[str, ...]],
    fakes: Mapping[str, Fake],
    *,
    amax: Mapping[str, float],
) -> list[Sensitivity]:
    """Quantize one layer at a time, in each scheme, and compare the transformer's output.

    Args:
        component: Name of the transformer, for tables.
        model: In 16 bit, on the device where it is to run; unchanged afterwards.
        calls: Recorded in calibration; few are enough, as every layer costs so many runs a scheme.
        groups: Layer -> its linears, which are quantized together (:func:`groups_of`).
        fakes: Scheme -> its numerics.
        amax: Linear -> largest absolute input in calibration.

    Returns:
        One entry a layer, in the order of ``groups``.

    Raises:
        QuantizationFailed: no call was recorded, or an output is not finite.
    """
    if not calls:
        raise QuantizationFailed(
            f"no call of the {component} was recorded in calibration; give more prompts or steps"
        )
    modules = linear_modules(model)
    with torch.no_grad():
        outputs = [output_of(model, call) for call in calls]
        found = []
        for group, names in tqdm(groups.items(), desc=f"sensitivity of {component}", unit="layer"):
            layers = [modules[name] for name in names]
            largest = max(amax[name] for name in names)
            errors = {}
            for scheme, fake in fakes.items():
                with rounded(fake, layers, largest):
                    errors[scheme] = output_error(model, calls, outputs)
                if not math.isfinite(errors[scheme]):
                    raise QuantizationFailed(
                        f"{component} with only {group} in {scheme} gives values not finite"
                    )
            size = sum(layer.weight.numel() for layer in layers)
            found.append(
                Sensitivity(
                    component=component, group=group, linears=names, parameters=size, errors=errors
                )
            )
    return found


def choose(
    found: Sequence[Sensitivity],
    bits: Mapping[str, float],
    *,
    small: str,
    large: str,
    effective_bits: float,
) -> dict[tuple[str, str], str]:
    """The scheme of each layer: the small one where it costs least, until enough is saved.

    Args:
        found: From :func:`measure`; of all transformers of a pipeline together.
        bits: Scheme -> stored bits a weight.
        small: Scheme of few bits.
        large: Scheme of many.
        effective_bits: Stored bits a weight on average, at most.

    Returns:
        (component, layer) -> scheme. Equal costs go by name, so equal errors give equal choices.
    """
    saved = bits[large] - bits[small]
    wanted = (bits[large] - effective_bits) * sum(one.parameters for one in found)
    wanted -= 1e-9 * abs(wanted)  # a budget met exactly is met, whatever the rounding
    order = sorted(
        found,
        key=lambda one: (
            (one.errors[small] ** 2 - one.errors[large] ** 2) / (one.parameters * saved),
            one.component,
            one.group,
        ),
    )
    chosen = {(one.component, one.group): large for one in found}
    spent, shrunk = 0.0, []
    for one in order:
        if spent >= wanted:
            break
        chosen[one.component, one.group] = small
        spent += one.parameters * saved
        shrunk.append(one)
    for one in reversed(shrunk):  # the last layer may have saved more than was needed
        if spent - one.parameters * saved >= wanted:
            chosen[one.component, one.group] = large
            spent -= one.parameters * saved
    return chosen


def effective_bits(
    found: Sequence[Sensitivity], chosen: Mapping[tuple[str, str], str], bits: Mapping[str, float]
) -> float:
    """Stored bits a weight, on average, of a choice."""
    stored = sum(bits[chosen[one.component, one.group]] * one.parameters for one in found)
    return stored / sum(one.parameters for one in found)


def decided(
    plan: Plan, found: Sequence[Sensitivity], chosen: Mapping[tuple[str, str], str]
) -> Plan:
    """The plan with the chosen schemes."""
    for component, layers in plan.layers.items():
        schemes = dict(layers)
        for one in found:
            if one.component == component:
                schemes |= dict.fromkeys(one.linears, chosen[component, one.group])
        plan = plan.decided(component, schemes)
    return plan


@contextmanager
def rounded(fake: Fake, layers: Sequence[nn.Linear], amax: float) -> Iterator[None]:
    """Some linears, one layer of the engine, rounded as a scheme does; as they were afterwards.

    Args:
        fake: Numerics of the scheme.
        layers: The linears.
        amax: Largest absolute value of their inputs in calibration.
    """
    before = [layer.weight.data for layer in layers]
    hooks = []
    try:
        for layer, weight in zip(layers, fake.weights(before), strict=True):
            layer.weight.data = weight.to(layer.weight.dtype)
            if fake.inputs is not None:
                hooks.append(layer.register_forward_pre_hook(_rounding(fake.inputs, amax)))
        yield
    finally:
        for layer, weight in zip(layers, before, strict=True):
            layer.weight.data = weight
        for hook in hooks:
            hook.remove()


def _rounding(
    inputs: Callable[[Tensor, float], Tensor], amax: float
) -> Callable[[nn.Module, tuple[Tensor, ...]], tuple[Tensor, ...]]:
    def before(_: nn.Module, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        values = arguments[0]
        return (inputs(values, amax).to(values.dtype), *arguments[1:])

    return before
