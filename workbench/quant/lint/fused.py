"""Projections that the engine loads into one layer: one scheme, nobody missing, scales alike."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.quant.lint.findings import ERROR, NOTE, Finding
from workbench.quant.lint.folder import Component
from workbench.quant.lint.scales import scalars
from workbench.schemes import SIXTEEN_BIT
from workbench.zoo.names import fused_group, siblings

APART = 8.0
"""Ratio of per-tensor FP8 scales beyond which the smaller member loses 3 of 3 mantissa bits."""
_ROUNDING = 1e-3


def check_fused(component: Component) -> Iterator[Finding]:
    """Every group of fused projections."""
    groups = dict.fromkeys(_groups(component))
    for members in groups:
        yield from _complete(component, members)
        yield from _uniform(component, members)
    whole = [g for g in groups if all(name in component.quantized for name in g)]
    yield from _apart(component, [g for g in whole if _scheme(component, g) == "NVFP4"], 4)
    yield from _apart(component, [g for g in whole if _scheme(component, g) == "FP8"], 8)


def _groups(component: Component) -> Iterator[tuple[str, ...]]:
    preset = component.preset
    for name in component.linears if preset is not None else ():
        if fused_group(preset, name) is not None:
            yield siblings(preset, name)


def _scheme(component: Component, members: tuple[str, ...]) -> str:
    schemes = {component.linears[name].scheme for name in members}
    return schemes.pop() if len(schemes) == 1 else ""


def _file(component: Component, name: str) -> str:
    return component.file_of(next(iter(component.linears[name].tensors.values())))


def _complete(component: Component, members: tuple[str, ...]) -> Iterator[Finding]:
    there = [name for name in members if name in component.linears]
    # Some models have no query of their own for the added tokens: then no block has it.
    known = {name.rpartition(".")[2] for name in component.linears}
    for name in members:
        if name not in there and name.rpartition(".")[2] in known:
            yield Finding(
                ERROR, "fused-missing", _file(component, there[0]), name,
                f"is not in the file, but the engine loads it into one layer with {there[0]}; "
                "incomplete copy, or an export that left it out: export again",
            )  # fmt: skip


def _uniform(component: Component, members: tuple[str, ...]) -> Iterator[Finding]:
    found = {n: component.linears[n].scheme for n in members if n in component.linears}
    kinds = {"16 bit" if scheme in SIXTEEN_BIT else scheme for scheme in found.values()}
    if len(kinds) < 2:
        return
    counts = list(found.values())
    odd = min(found, key=lambda name: counts.count(found[name]))
    shown = ", ".join(f"{name.rpartition('.')[2]} {scheme}" for name, scheme in found.items())
    yield Finding(
        ERROR, "fused-mixed", _file(component, odd), odd,
        f"{shown}: the engine loads them into one layer, which has one scheme; quantize all or "
        "none, alike",
    )  # fmt: skip


def _apart(component: Component, groups: list[tuple[str, ...]], bits: int) -> Iterator[Finding]:
    """The engine takes the largest scale of a group; FP8 it requantizes, NVFP4 it does not."""
    part = "weight_scale_2" if bits == 4 else "weight_scale"
    found = scalars(component, part) if groups else {}
    for members in groups:
        here = {name: found[name] for name in members if found.get(name, 0) > 0}
        if len(here) < 2:
            continue
        ratio = max(here.values()) / min(here.values())
        least = min(here, key=lambda name: here[name])
        if bits == 4 and ratio > 1 + _ROUNDING:
            message = (
                f"is {ratio:.4g} times smaller than that of its fused siblings, and the engine "
                "takes the largest for all: its weights come out too large by that; export with "
                "one scale for q, k and v"
            )
            yield Finding(ERROR, "fused-scale", _file(component, least), f"{least}.{part}", message)
        elif bits == 8 and ratio > APART:
            message = (
                f"is {ratio:.3g} times smaller than that of its fused siblings; the engine "
                "requantizes to the largest, and this one loses precision"
            )
            yield Finding(NOTE, "fused-scale", _file(component, least), f"{least}.{part}", message)
