"""What a set is called in tables and figures."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from workbench.records import GenerationSet
from workbench.specs import LaunchSpec

_KEY_DIGITS = 4


def label(one: GenerationSet) -> str:
    """The precision, and which repeat: ``FP8``, ``BF16 repeat``, ``BF16 repeat 2``."""
    repeat = one.spec.repeat
    return (
        f"{one.precision} repeat{f' {repeat}' if repeat > 1 else ''}" if repeat else one.precision
    )


def labels(sets: Iterable[GenerationSet]) -> list[str]:
    """A label each, told apart where two launches share one.

    Launches of one label have what differs in their recipes added, in brackets: ``W4A16 tuned
    (iters=50)``; a value too long to read is left to the first digits of the launch's key.
    """
    every = list(sets)
    plain = [label(one) for one in every]
    launches: dict[str, dict[str, LaunchSpec]] = {}
    for name, one in zip(plain, every, strict=True):
        launches.setdefault(name, {})[one.spec.launch.key] = one.spec.launch
    told = {
        (name, key): f"{name} ({detail})" if detail else name
        for name, of_name in launches.items()
        for key, detail in _details(of_name).items()
    }
    return [told[name, one.spec.launch.key] for name, one in zip(plain, every, strict=True)]


def _details(launches: dict[str, LaunchSpec]) -> dict[str, str]:
    """Key of a launch -> what tells it from the others; nothing where it is alone."""
    if len(launches) == 1:
        return dict.fromkeys(launches, "")
    facts = {key: _facts(launch) for key, launch in launches.items()}
    names = [name for fact in facts.values() for name in fact]
    differing = [
        name
        for name in dict.fromkeys(names)
        if len({json.dumps(fact.get(name)) for fact in facts.values()}) > 1
    ]
    details = {
        key: ", ".join(f"{name}={fact[name]}" for name in differing if _short(fact.get(name)))
        for key, fact in facts.items()
    }
    if len(set(details.values())) == len(details):
        return details
    return {
        key: ", ".join(filter(None, [detail, f"#{key[:_KEY_DIGITS]}"]))
        for key, detail in details.items()
    }


def _facts(launch: LaunchSpec) -> dict[str, Any]:
    recipe = launch.recipe.model_dump(mode="json") if launch.recipe is not None else {}
    return {**recipe, **run_facts(launch), "model": launch.model.source}


def run_facts(launch: LaunchSpec) -> dict[str, Any]:
    """How a launch departs from the default ways of running: ``tensor_parallel_size`` -> 2, ..."""
    layout, default = launch.parallelism, LaunchSpec(model=launch.model)
    facts = {
        name: getattr(launch, name)
        for name in ("runtime", "attention_backend", "step_execution", "max_num_seqs")
        if getattr(launch, name) != getattr(default, name)
    }
    degrees = {name: size for name, size in layout.model_dump().items() if size > 1}
    return {**facts, **degrees}


def _short(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)
