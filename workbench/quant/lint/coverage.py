"""The pipeline as a whole: who is quantized, by which config, and who should not be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from workbench.quant.lint.findings import ERROR, NOTE, WARNING, Finding
from workbench.quant.lint.folder import CONFIG, INDEX, Component, Subject
from workbench.quant.lint.methods import algorithm, method_of
from workbench.zoo.presets import inside_blocks, kept_reason

_COMPARED = ("bits", "group_size", "sym", "data_type", "packing_format")


def shares(subject: Subject) -> dict[str, float]:
    """Transformer -> share of its linear parameters in fewer than 16 bits, 0 to 1."""
    return {
        component.name: sum(one.parameters for one in component.quantized.values())
        / max(sum(one.parameters for one in component.linears.values()), 1)
        for component in subject.transformers
        if component.linears
    }


def check_pipeline(subject: Subject) -> Iterator[Finding]:
    """Rules about more than one component, or about the folder."""
    yield from subject.broken
    for rule in (_missing, _conflicts, _experts, _uncovered, _ignored, _others, _paths, _nothing):
        yield from rule(subject)


def _missing(subject: Subject) -> Iterator[Finding]:
    if subject.layout != "pipeline":
        return
    index = subject.folder / INDEX
    try:
        named = json.loads(index.read_text())
    except (OSError, ValueError):
        return  # told as config-broken
    for name, value in named.items() if isinstance(named, dict) else ():
        there = (subject.folder / name).is_dir()
        if isinstance(value, list) and value and value[0] is not None and not there:
            message = f"{INDEX} names it, but the folder is not there: incomplete copy?"
            yield Finding(ERROR, "component-missing", f"{name}/", "", message)


def _conflicts(subject: Subject) -> Iterator[Finding]:
    """Two configs that speak of one component and differ."""
    for component in subject.transformers:
        own = component.quantization
        for file, other in [*component.said.items(), *subject.root.items()]:
            differing = list(_differences(own, other)) if other is not own else []
            if differing and own:
                yield Finding(
                    ERROR, "config-conflict", file.partition(":")[0], "",
                    f"differs from {component.quantization_file} in {'; '.join(differing)}: the "
                    f"engine reads {component.quantization_file}; delete the stale one",
                )  # fmt: skip


def _differences(own: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    one, two = method_of(own), method_of(other)
    if two.raw and one.canonical != two.canonical:
        yield f"method {two.raw!r} against {one.raw!r}"
    if algorithm(other) and algorithm(own) != algorithm(other):
        yield f"quant_algo {algorithm(other)} against {algorithm(own) or 'none'}"
    for name in _COMPARED:
        if name in own and name in other and str(own[name]) != str(other[name]):
            yield f"{name} {other[name]!r} against {own[name]!r}"


def _experts(subject: Subject) -> Iterator[Finding]:
    """Experts of one pipeline that are quantized by different methods."""
    speaking = [component for component in subject.transformers if component.quantization]
    for other in speaking[1:]:
        if other.method.canonical != speaking[0].method.canonical:
            yield Finding(
                ERROR, "config-conflict", other.quantization_file, "",
                f"is quantized by {other.method}, {speaking[0].name} by {speaking[0].method}: "
                "vLLM-Omni takes one method a pipeline; quantize both alike",
            )  # fmt: skip


def _uncovered(subject: Subject) -> Iterator[Finding]:
    transformers = [component for component in subject.transformers if component.linears]
    packed = [component.name for component in transformers if component.quantized]
    for component in transformers:
        if packed and not component.quantized:
            yield Finding(
                WARNING, "coverage", component.where, "",
                f"no linear of it is quantized, while {', '.join(packed)} is: its steps run "
                "in 16 bit, and memory is that of both; quantize it too",
            )  # fmt: skip
    for component in transformers:
        yield from _inside(component)


def _inside(component: Component) -> Iterator[Finding]:
    """Linears inside the blocks in 16 bit that the engine could run quantized."""
    preset, method = component.preset, component.method.canonical
    if preset is None or not component.quantized:
        return
    plain = [
        name
        for name, linear in component.linears.items()
        if not linear.quantized
        and inside_blocks(preset, name)
        and kept_reason(preset, name, method) is None
    ]
    if plain:
        packed = sum(linear.parameters for linear in component.quantized.values())
        open_ = packed + sum(component.linears[name].parameters for name in plain)
        yield Finding(
            NOTE, "coverage", component.where, plain[0],
            f"{len(plain)} linears that the engine can run quantized are in 16 bit; "
            f"{packed / open_:.0%} of those parameters are quantized",
        )  # fmt: skip


def _ignored(subject: Subject) -> Iterator[Finding]:
    for component in subject.transformers:
        if component.preset and component.preset.ignored and component.quantized:
            message = f"vLLM-Omni 0.30.0 cannot use it: {component.preset.ignored}; serve 16 bit"
            yield Finding(ERROR, "family-ignored", component.where, "", message)


def _others(subject: Subject) -> Iterator[Finding]:
    for component in subject.components:
        if component.transformer or not (component.quantization or component.quantized):
            continue
        yield Finding(
            WARNING, "component-ignored", component.where, "",
            f"is quantized ({component.method}, {len(component.quantized)} packed linears), but "
            "vLLM-Omni hands no quantization to it: put the 16-bit one of the source back",
        )  # fmt: skip


def _paths(subject: Subject) -> Iterator[Finding]:
    for component in subject.components:
        path = component.config.get("_name_or_path")
        if isinstance(path, str) and path.startswith(("/", "~", "file:", "C:")):
            message = f"_name_or_path is {path!r}, a path of the machine that made it; delete it"
            yield Finding(NOTE, "path-leaked", f"{component.where}{CONFIG}", "", message)


def _nothing(subject: Subject) -> Iterator[Finding]:
    if not any(c.quantized or c.quantization for c in subject.components):
        message = "nothing here is quantized; wb.quantize makes a checkpoint of it"
        yield Finding(NOTE, "no-quantization", "", "", message)
    if subject.family is None and subject.layout != "flat":
        message = "no preset for this pipeline class: names and fused layers were not checked"
        yield Finding(NOTE, "family-unknown", "", "", message)
