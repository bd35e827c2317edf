"""What the engine makes of a component: whether it loads, and what runs in which precision."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Literal

from workbench.quant.lint.acceptance import Accepted, accepts
from workbench.quant.lint.fates import GOOD, LayerFate, layer_fate
from workbench.quant.lint.folder import Component
from workbench.quant.lint.methods import AUTOROUND, MODELOPT
from workbench.zoo.names import siblings

Outcome = Literal["as stored", "16 bit", "partly", "refused", "wrong numbers", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What an engine does with one component."""

    component: str
    outcome: Outcome
    """``partly``: stored in fewer bits than it runs in; ``unknown``: accepted, not worked out."""
    method: str = ""
    """The engine's own name of the method it chooses; empty for none."""
    reason: str = ""
    repair: str = ""
    """Repair of the plugin without which it would be refused or wrong."""
    layers: tuple[LayerFate, ...] = field(default=(), repr=False)

    @property
    def quantized(self) -> tuple[str, ...]:
        """Modules of the loaded model that run quantized, without the component."""
        return tuple(layer.module for layer in self.layers if layer.fate == "quantized")

    @property
    def sixteen_bit(self) -> tuple[str, ...]:
        """Modules of the loaded model that run in 16 bit."""
        return tuple(x.module for x in self.layers if x.fate in ("16 bit", "dequantized"))

    def __str__(self) -> str:
        counts = f", {len(self.quantized)} layers quantized, {len(self.sixteen_bit)} in 16 bit"
        shown = counts if self.layers and self.outcome != "refused" else ""
        why = f": {self.reason}" if self.reason else ""
        return f"{self.component}: {self.outcome} [{self.method or 'none'}]{shown}{why}"


def predict(component: Component, repaired: Collection[str] = ()) -> Prediction:
    """What vLLM-Omni 0.30.0 does with a component, some repairs in force.

    Args:
        component: As read from the folder.
        repaired: Names of :data:`workbench.zoo.repairs.REPAIRS`; none is the stock engine.
    """
    name = component.name
    if not component.transformer:
        reason = "vLLM-Omni loads it by diffusers or transformers and quantizes nothing in it"
        return Prediction(component=name, outcome="16 bit", reason=reason)
    if not component.quantization:
        return _without_config(component)
    if component.flat:
        reason = "no diffusers pipeline: vLLM's own reader takes it, and names were not checked"
        return Prediction(
            component=name, outcome="unknown", method=component.method.canonical, reason=reason
        )
    accepted = accepts(component.quantization, component.family, repaired)
    if accepted.refusal:
        return Prediction(
            component=name, outcome="refused", reason=accepted.refusal, repair=accepted.repair
        )
    if component.preset is None or component.method.canonical not in (AUTOROUND, MODELOPT):
        reason = "accepted; which of its layers are quantized is not worked out for this method"
        return Prediction(component=name, outcome="unknown", method=accepted.method, reason=reason)
    return _summed(component, accepted, tuple(_layers(component, accepted, repaired)))


def _without_config(component: Component) -> Prediction:
    if not component.quantized:
        reason = "nothing is quantized"
        return Prediction(component=component.name, outcome="16 bit", reason=reason)
    return Prediction(
        component=component.name,
        outcome="refused",
        reason=f"no quantization config, so {len(component.quantized)} packed linears, "
        f"{next(iter(component.quantized))} first, are taken for 16-bit weights",
    )


def _layers(
    component: Component, accepted: Accepted, repaired: Collection[str]
) -> Iterator[LayerFate]:
    assert component.preset is not None
    seen: set[str] = set()
    for name in component.linears:
        if name not in seen:
            every = siblings(component.preset, name)
            members = tuple(one for one in every if one in component.linears)
            seen.update(members)
            yield layer_fate(component, accepted.method, members, repaired)


def _summed(component: Component, accepted: Accepted, layers: tuple[LayerFate, ...]) -> Prediction:
    fates = {layer.fate for layer in layers}
    bad = [layer for fate in ("refused", "wrong") for layer in layers if layer.fate == fate]
    worst = bad[0] if bad else next((x for x in layers if x.fate not in GOOD), None)
    outcome: Outcome = "as stored" if "quantized" in fates else "16 bit"
    if bad:
        outcome = "refused" if bad[0].fate == "refused" else "wrong numbers"
    elif "dequantized" in fates:
        outcome = "partly"
    return Prediction(
        component=component.name,
        outcome=outcome,
        method=accepted.method,
        reason=f"{worst.layer}: {worst.reason}" if worst else "",
        repair=worst.repair if worst else accepted.repair,
        layers=layers,
    )
