"""Names in a quantization config that mean something else than they seem to."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatch
from functools import cached_property

from workbench.quant.lint.assignment import whole_names
from workbench.quant.lint.findings import ERROR, NOTE, Finding
from workbench.quant.lint.folder import Component
from workbench.quant.lint.methods import AUTOROUND, MODELOPT, ignored, inner, mapping
from workbench.zoo.names import canonical, runtime_name, spellings
from workbench.zoo.preset import Preset
from workbench.zoo.presets import kept_reason

_SPECIAL = set("*+?^$()[]{}|\\")


class _Names:
    """All names that the linears of a component go by."""

    def __init__(self, component: Component, preset: Preset) -> None:
        self.component, self.preset = component, preset
        self.file = component.quantization_file

    @cached_property
    def layers(self) -> dict[str, list[str]]:
        """Layer of the engine -> linears of the file that it is loaded from."""
        layers: dict[str, list[str]] = {}
        for name in self.component.linears:
            layers.setdefault(runtime_name(self.preset, name), []).append(name)
        return layers

    @cached_property
    def spelt(self) -> dict[str, str]:
        """Every name by which one may call a linear -> layer of the engine."""
        return {
            one: layer
            for layer, members in self.layers.items()
            for name in members
            for one in (*spellings(self.preset, name), canonical(self.preset, name))
        }

    @cached_property
    def fused(self) -> set[str]:
        """Linears of the file that share a layer."""
        return {n for members in self.layers.values() if len(members) > 1 for n in members}

    @cached_property
    def modules(self) -> set[str]:
        """Every module of the file, and every one that holds it."""
        every = set(self.layers)
        for name in self.component.tensors:
            while "." in name:
                name = name.rpartition(".")[0]
                every.add(name)
        return every

    def packed(self, members: Collection[str]) -> bool:
        return any(name in self.component.quantized for name in members)


def check_names(component: Component, *, plugin: bool) -> Iterator[Finding]:
    """Entries that match more than themselves, or nothing.

    Args:
        component: As read.
        plugin: Whether the workbench's plugin will read them.
    """
    if component.preset is None:
        return
    names, config = _Names(component, component.preset), component.quantization
    if component.method.canonical == AUTOROUND:
        yield from _extra(names, mapping(config.get("extra_config")))
    elif component.method.canonical == MODELOPT:
        yield from _ignored(names, ignored(config), repaired=plugin and whole_names(config))
        yield from _listed(names, mapping(inner(config).get("quantized_layers")))


def _extra(names: _Names, extra: Mapping[str, object]) -> Iterator[Finding]:
    """A short name also means every longer one that ends in it (inc/config_parser.py:166)."""
    for key in extra:
        if set(key) & _SPECIAL:
            if not any(_searches(key, module) for module in names.modules):
                yield _nothing(names, key, "extra_config")
            continue
        longer = [layer for layer in names.layers if layer.endswith(f".{key}")]
        if key in names.component.linears and longer:
            yield Finding(
                ERROR, "name-suffix", names.file, key,
                f"this entry of extra_config also takes {len(longer)} layers that end in it, "
                f"{longer[0]} first, out of its scheme; delete the entry if the engine keeps that "
                "layer in 16 bit anyway",
            )  # fmt: skip
        elif not longer and key not in names.layers:
            yield from _no_such(names, key, "extra_config", extra)


def _ignored(names: _Names, entries: list[str], *, repaired: bool) -> Iterator[Finding]:
    """An entry means every layer whose name contains it (modelopt.py:200)."""
    for entry in entries:
        if set(entry) & _SPECIAL:
            if not any(fnmatch(module, entry) for module in names.modules):
                yield _nothing(names, entry, "ignore")
            continue
        hidden = [
            layer
            for layer, members in names.layers.items()
            if entry in layer and entry not in (layer, *members) and names.packed(members)
        ]
        if entry in names.component.linears and hidden:
            yield Finding(
                NOTE if repaired else ERROR, "name-substring", names.file, entry,
                f"stock vLLM takes this entry of ignore for any part of a name, and so keeps "
                f"{len(hidden)} quantized layers in 16 bit, {hidden[0]} first; delete it if the "
                "engine keeps that layer in 16 bit anyway"
                + (" (the workbench's plugin reads whole names)" if repaired else ""),
            )  # fmt: skip
        elif not any(entry in layer for layer in names.layers):
            yield from _no_such(names, entry, "ignore", entries)


def _listed(names: _Names, entries: Mapping[str, object]) -> Iterator[Finding]:
    """The engine asks for fused layers by their own name, which quantized_layers must hold."""
    for layer, members in names.layers.items():
        named = [name for name in members if name in entries]
        if len(members) > 1 and named and layer not in entries:
            yield Finding(
                NOTE, "fused-unlisted", names.file, layer,
                f"quantized_layers names {named[0].rpartition('.')[2]} but not the layer that it "
                "is loaded into, so stock vLLM-Omni builds that in 16 bit; the workbench's plugin "
                "looks at the members. Add it for stock",
            )  # fmt: skip
    for name in entries:
        if name not in names.layers:
            yield from _no_such(names, name, "quantized_layers", entries)


def _no_such(names: _Names, name: str, where: str, entries: Collection[str]) -> Iterator[Finding]:
    """An entry for a layer that the engine calls otherwise, or that nobody has."""
    layer = names.spelt.get(name)
    if layer is None:
        if name not in names.modules:
            yield _nothing(names, name, where)
        return
    kept = kept_reason(names.preset, names.layers[layer][0], names.component.method.canonical)
    if layer not in (name, *entries) and kept is None and name not in names.fused:
        yield Finding(
            NOTE, "name-other", names.file, name,
            f"the engine asks for it as {layer}, so this entry of {where} means nothing by itself",
        )  # fmt: skip


def _nothing(names: _Names, name: str, where: str) -> Finding:
    problem = f"{where} names it, but it matches no module of the file; correct or delete it"
    return Finding(ERROR, "name-unknown", names.file, name, problem)


def _searches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return False
