"""What the planner knows, asked before a launch: what a layout cuts, and whether weights fit."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from workbench.errors import NotSupportedHere, SpecError
from workbench.provenance import gpu_bytes_used
from workbench.serve.defaults import full_sampling
from workbench.serve.expected import components
from workbench.serve.layouts import describe
from workbench.serve.plan_facts import Facts, cut_problem, facts_of
from workbench.serve.plan_layouts import Layout, Layouts
from workbench.serve.plan_memory import tokens_of, weights_of
from workbench.serve.plan_result import gib, size_of
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

    Warns where the weights fit and the estimate of a request at the model's own size does not.

    Args:
        spec: What is launched.
        family: Of the pipeline.
        folder: Where it lies; one without weight files has none to look at.
        devices: GPUs of this machine, with their ``memory_bytes``; none is a CPU.

    Raises:
        SpecError: the layout does not suit the model.
        NotSupportedHere: the weights alone exceed what is free on a GPU.
    """
    layout, support = spec.parallelism, support_of(family.name)
    problems = (*support_problems(support, layout), patches_problem(support, layout))
    for problem in filter(None, problems):
        raise SpecError(problem)
    if not components(folder, family):
        return
    facts = facts_of(spec, family, folder)
    if problem := cut_problem(facts.parts, layout.tensor_parallel_size):
        raise SpecError(problem)
    if devices and all(one.get("memory_bytes") for one in devices):
        _check_memory(spec, facts, folder, _room(devices, layout.world_size))


def check_sequence(spec: LaunchSpec, family: Family, folder: Path, sampling: Sampling) -> None:
    """Refuse a picture whose tokens the launched ranks of the sequence cannot share.

    Raises:
        SpecError: they do not divide, and nothing pads them.
    """
    tokens = tokens_of(vae_of(folder / "vae"), sampling)
    if problem := sequence_problem(support_of(family.name), spec.parallelism, tokens):
        raise SpecError(problem)


class _Room(NamedTuple):
    """The GPU of a launch that has least to spare."""

    gpus: int
    """How many there are."""
    number: int
    total: int
    free: int

    def __str__(self) -> str:
        if gib(self.free) == gib(self.total):
            return f"which has {gib(self.total)} GiB"
        return f"of which GPU {self.number} has {gib(self.free)} of {gib(self.total)} GiB free"


def _room(devices: Sequence[dict[str, Any]], ranks: int) -> _Room:
    every = zip_longest(devices, gpu_bytes_used()[: len(devices)], fillvalue=0)
    rooms = [
        _Room(len(devices), number, one["memory_bytes"], one["memory_bytes"] - used)
        for number, (one, used) in enumerate(every)
    ]
    return min(rooms[:ranks], key=lambda room: room.free)


def _check_memory(spec: LaunchSpec, facts: Facts, folder: Path, room: _Room) -> None:
    """Refuses for the weights alone: what a request needs besides is an estimate."""
    layouts = Layouts(
        facts,
        full_sampling(folder, None),
        gpus=room.gpus,
        capacity=room.free,
        batch=spec.max_num_seqs,
        stepped=spec.step_execution,
    )
    weights = sum(weights_of(facts, spec.parallelism.tensor_parallel_size).values())
    if weights > room.free:
        raise NotSupportedHere(
            f"{describe(spec.parallelism)} puts about {gib(weights)} GiB of weights on each GPU, "
            f"{room}; {_instead(layouts)}{_freed(room, weights)}"
        )
    planned = layouts.judge(spec.parallelism)
    if not planned.fits:
        warnings.warn(_shortage(spec, layouts, planned, room), stacklevel=6)


def _shortage(spec: LaunchSpec, layouts: Layouts, planned: Layout, room: _Room) -> str:
    parts = planned.estimate.fullest(planned.parallelism)
    told = ", ".join(f"{name} {gib(size)}" for name, size in parts.items())
    together = f", {spec.max_num_seqs} drawn together" if spec.max_num_seqs > 1 else ""
    return (
        f"{describe(spec.parallelism)} needs about {gib(planned.needed)} GiB of each GPU, {room}: "
        f"{told} GiB, at {size_of(layouts.sampling)}{together}. This is an estimate, a few percent "
        "off: a request may run out of memory. Draw smaller pictures, or fewer at a time; "
        f"{_instead(layouts)}{_freed(room, planned.needed)}"
    )


def _freed(room: _Room, needed: int) -> str:
    """What else runs there is in the way only if the whole GPU would do."""
    return "; or end what else runs there, as nvidia-smi lists it" if needed <= room.total else ""


def _instead(layouts: Layouts) -> str:
    """The smallest layout that fits, else the first scheme that does."""
    best = layouts.smallest()
    if best is not None:
        return f"use {describe(best.parallelism)}, which needs about {gib(best.needed)} GiB of each"
    for row in scheme_rows(layouts):
        if row["smallest_gpus"]:
            return (
                f"no layout on {layouts.gpus} of them fits, but {row['scheme']} ({row['how']}) "
                f"would on {row['smallest_gpus']}, with {row['layout']}"
            )
    return (
        f"no layout on {layouts.gpus} of them fits, at no scheme; use GPUs of more memory, or more "
        "of them"
    )
