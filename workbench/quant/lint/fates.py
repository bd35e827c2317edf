"""One layer: what the engine builds by its config, against what the file holds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from workbench.quant.lint.assignment import assigned
from workbench.quant.lint.folder import Component
from workbench.quant.lint.needed import missing_scales
from workbench.schemes import BF16, INTEGER, SCHEMES, SIXTEEN_BIT
from workbench.zoo import repairs
from workbench.zoo.inventory import UNKNOWN, StoredLinear
from workbench.zoo.names import canonical, module_name, runtime_name
from workbench.zoo.presets import kept_reason

Fate = Literal["quantized", "16 bit", "dequantized", "refused", "wrong"]
GOOD = ("quantized", "16 bit")
_FP8 = ("FP8", "FP8_PER_CHANNEL_PER_TOKEN")
_DEQUANTIZES = ("modelopt", "modelopt_fp4", "modelopt_mixed")
_ADAPTED = "transformer"
"""The component whose FP8 weights the engine can dequantize (checkpoint_adapters/modelopt.py)."""
Verdict = tuple[Fate, str, str]
"""Fate, rule and reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFate:
    """One layer as the engine builds and loads it."""

    layer: str
    """Name by which the engine's quantization config knows it."""
    module: str
    """Path of the module in the loaded model, without the component."""
    members: tuple[str, ...]
    """Linears of the file that are loaded into it."""
    fate: Fate
    rule: str = ""
    reason: str = ""
    repair: str = ""
    """Repair of the plugin that makes it load right."""


def layer_fate(
    component: Component, method: str, members: tuple[str, ...], repaired: Collection[str]
) -> LayerFate:
    """What becomes of the linears that are loaded into one layer.

    Args:
        component: Of a known family, with a config that the engine accepts.
        method: The engine's own name of the method.
        members: Linears of the file, all of one layer.
        repaired: Names of the repairs in force.
    """
    preset = component.preset
    assert preset is not None
    fate, rule, reason = _verdict(component, method, members, repaired)
    repair = ""
    if fate not in GOOD:
        cured = (n for n in repairs.REPAIRS if n not in repaired)
        every = (
            n for n in cured if _verdict(component, method, members, {*repaired, n})[0] in GOOD
        )
        repair = next(every, "")
    return LayerFate(
        layer=runtime_name(preset, members[0]),
        module=module_name(preset, members[0]),
        members=members,
        fate=fate,
        rule=rule,
        reason=reason,
        repair=repair,
    )


@dataclass(frozen=True, slots=True)
class _Case:
    component: Component
    method: str
    stored: list[StoredLinear]
    repaired: Collection[str]

    @property
    def schemes(self) -> dict[str, None]:
        return dict.fromkeys(linear.scheme for linear in self.stored)

    @property
    def shown(self) -> str:
        return "+".join(self.schemes)


def _verdict(
    component: Component, method: str, members: tuple[str, ...], repaired: Collection[str]
) -> Verdict:
    preset, own = component.preset, component.method.canonical
    assert preset is not None
    kept = kept_reason(preset, members[0], own)
    names = {*members, *(canonical(preset, name) for name in members)}
    layer = runtime_name(preset, members[0])
    built, key = assigned(own, component.quantization, layer, names, repaired)
    why = f"entry {key!r}" if key else "the config"
    if kept is not None:
        built, why = BF16, kept
    case = _Case(component, method, [component.linears[name] for name in members], repaired)
    return _in_16_bit(case, why) if built == BF16 else _quantized(case, why, built)


def _in_16_bit(case: _Case, why: str) -> Verdict:
    """The engine builds it in 16 bit."""
    if all(scheme in SIXTEEN_BIT for scheme in case.schemes):
        return "16 bit", "", why
    told = f"the file holds {case.shown}, but the engine builds it in 16 bit ({why})"
    eight = all(scheme in (*_FP8, *SIXTEEN_BIT) for scheme in case.schemes)
    if not eight or case.method not in _DEQUANTIZES:
        return "refused", "packed-but-kept", f"{told}; keep it in 16 bit in the file"
    if case.component.name == _ADAPTED or repairs.EVERY_EXPERT in case.repaired:
        note = f"{told} and dequantizes it at load: it saves disk only"
        return "dequantized", "dequantized-at-load", note
    told += f": only {_ADAPTED!r} is dequantized, here the bytes are taken without their scales"
    return "wrong", "packed-but-kept", f"{told}; keep it in 16 bit in the file"


def _quantized(case: _Case, why: str, built: str) -> Verdict:
    """The engine builds it quantized."""
    told = f"{why} makes it {built}"
    if any(scheme in SIXTEEN_BIT for scheme in case.schemes):
        return _unquantized(told, case.shown, built, case.repaired)
    if not all(scheme in (built, UNKNOWN) for scheme in case.schemes):
        return (
            "refused",
            "dtype-not-planned",
            f"{told}, the file holds {case.shown}: shapes or scales do not fit. Correct the "
            "config, or quantize it again",
        )
    if _scales_dropped(case):
        reason = "its scales bear another name at runtime and are dropped"
        return _garbage("scale-dropped", reason, case.repaired)
    lost = [part for linear in case.stored for part in missing_scales(case.component, linear)]
    if lost and (built in INTEGER or (built == "NVFP4" and "weight_scale" in lost)):
        return "refused", "scale-missing", f"{lost[0]} is missing"
    if lost:
        return _garbage("scale-missing", f"{lost[0]} is missing", case.repaired)
    return "quantized", "", ""


def _unquantized(told: str, shown: str, built: str, repaired: Collection[str]) -> Verdict:
    """16 bit in the file, built quantized."""
    told = f"{told}, but the file holds {shown}"
    cure = "list it among the layers that stay in 16 bit, or quantize it"
    if built in SCHEMES and SCHEMES[built].stored == "F8_E4M3":
        return _garbage("dtype-not-planned", f"{told}: cast without a scale; {cure}", repaired)
    return "refused", "dtype-not-planned", f"{told}: the packed tensors are not there; {cure}"


def _garbage(rule: str, reason: str, repaired: Collection[str]) -> Verdict:
    """A layer whose scale is never filled: the stock engine logs it, the plugin refuses."""
    return ("refused" if repairs.MISSING_SCALES in repaired else "wrong"), rule, reason


def _scales_dropped(case: _Case) -> bool:
    """Whether the adapter of ModelOpt files, which knows few renamings, drops its scales."""
    preset, linear = case.component.preset, case.stored[0]
    assert preset is not None
    known = (linear.name, linear.name.replace(".to_out.0", ".to_out"))
    return (
        repairs.DROPPED_SCALES not in case.repaired
        and case.component.name == _ADAPTED
        and case.method in _DEQUANTIZES
        and len(case.stored) == 1
        and runtime_name(preset, linear.name) not in known
    )
