"""What the planner knows, asked before a launch: what a layout cuts, and whether weights fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.errors import NotSupportedHere, SpecError
from workbench.serve.defaults import full_sampling
from workbench.serve.expected import components
from workbench.serve.layouts import describe
from workbench.serve.plan_facts import Facts, facts_of
from workbench.serve.plan_layouts import Layouts
from workbench.serve.plan_memory import tokens_of, weights_of
from workbench.serve.plan_result import gib
from workbench.serve.plan_rules import patches_problem, sequence_problem, support_problems
from workbench.serve.plan_schemes import scheme_rows
from workbench.specs import LaunchSpec, Sampling
from workbench.zoo.component_configs import vae_of
from workbench.zoo.families import Family
from workbench.zoo.parallel import support_of


def check_plan(
    spec: LaunchSpec, family: Family, folder: Path, devices: Sequence[dict[str, Any]]
) -> None:
    """Refuse a layout that the engine would ignore or that cuts a layer, and weights too large.

    Args:
        spec: What is launched.
        family: Of the pipeline.
        folder: Where it lies; one without weight files has none to look at.
        devices: GPUs of this machine, with their ``memory_bytes``; none is a CPU.

    Raises:
        SpecError: the layout does not suit the model.
        NotSupportedHere: the weights alone exceed a GPU's memory.
    """
    layout, support = spec.parallelism, support_of(family.name)
    problems = (*support_problems(support, layout), patches_problem(support, layout))
    for problem in filter(None, problems):
        raise SpecError(problem)
    if not components(folder, family):
        return
    facts = facts_of(spec, family, folder)
    for part in facts.parts:
        problem = part.share.problem(layout.tensor_parallel_size) if part.share else None
        if problem:
            raise SpecError(
                f"tensor_parallel_size={layout.tensor_parallel_size}: {part.component}.{part.name} "
                f"in {part.scheme} {problem}; use a size that divides it"
            )
    memory = devices[0].get("memory_bytes") if devices else None
    if memory:
        _check_memory(spec, facts, folder, len(devices), memory)


def check_sequence(spec: LaunchSpec, family: Family, folder: Path, sampling: Sampling) -> None:
    """Refuse a picture whose tokens the launched ranks of the sequence cannot share.

    Raises:
        SpecError: they do not divide, and nothing pads them.
    """
    tokens = tokens_of(vae_of(folder / "vae"), sampling)
    if problem := sequence_problem(support_of(family.name), spec.parallelism, tokens):
        raise SpecError(problem)


def _check_memory(spec: LaunchSpec, facts: Facts, folder: Path, devices: int, memory: int) -> None:
    """The weights alone: what a request needs besides is an estimate, and too rough to refuse."""
    weights = sum(weights_of(facts, spec.parallelism.tensor_parallel_size).values())
    if weights <= memory:
        return
    layouts = Layouts(facts, full_sampling(folder, None), gpus=devices, capacity=memory)
    raise NotSupportedHere(
        f"{describe(spec.parallelism)} puts about {gib(weights)} GiB of weights on each GPU, which "
        f"has {gib(memory)} GiB; {_instead(layouts)}"
    )


def _instead(layouts: Layouts) -> str:
    """The smallest layout that fits, else the first scheme that does."""
    best = layouts.smallest()
    if best is not None:
        return f"use {describe(best.parallelism)}, which needs about {gib(best.needed)} GiB of each"
    for row in scheme_rows(layouts):
        if row["smallest_gpus"]:
            return (
                f"no layout on {layouts.gpus} of them does, but {row['scheme']} ({row['how']}) "
                f"would on {row['smallest_gpus']}, with {row['layout']}"
            )
    return (
        f"no layout on {layouts.gpus} of them fits, at no scheme; use GPUs of more memory, or more "
        "of them"
    )
