"""What cannot work is refused here, before anything loads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from workbench.errors import NotSupportedHere, SpecError
from workbench.provenance import gpus
from workbench.serve.checkpoint_guards import FP8_CAPABILITY, check_checkpoint
from workbench.serve.layouts import describe, fitting
from workbench.serve.plan_guards import check_plan
from workbench.serve.plan_rules import (
    device_problem,
    guidance_problem,
    heads_problem,
    ring_problem,
    steps_problem,
)
from workbench.specs import LaunchSpec, Sampling
from workbench.zoo.component_configs import heads_of
from workbench.zoo.families import Family
from workbench.zoo.json_files import read_json
from workbench.zoo.parallel import support_of
from workbench.zoo.presets import preset_of
from workbench.zoo.sizes import second_problem

MOST_CPU_WORKERS = 8
INT8_CAPABILITY = (8, 0)
ON_CPU = ("TORCH_SDPA",)
COMPILERS = ("g++", "clang++")  # of which torch's inductor needs one on CPU


def check_launch(spec: LaunchSpec, family: Family, folder: Path) -> None:
    """Refuse what this model or this machine cannot do.

    Raises:
        SpecError: the request contradicts the model.
        NotSupportedHere: it needs another machine.
    """
    if family.not_served:
        raise NotSupportedHere(f"{folder} is a {family.name} model: {family.not_served}")
    if problem := _index_problem(family, folder):
        raise SpecError(problem)
    _check_layout(spec, family, folder)
    if problem := steps_problem(family, spec):
        raise SpecError(problem)
    devices = gpus()
    heads = [heads for _, heads in _heads(family, folder)]
    _check_devices(spec, len(devices) or MOST_CPU_WORKERS, heads, on_cpu=not devices)
    if devices:
        _check_gpus(spec, devices)
    else:
        _check_cpu(spec)
    check_checkpoint(spec, family, folder, devices)
    check_plan(spec, family, folder, devices)


def check_sampling(spec: LaunchSpec, family: Family, folder: Path, sampling: Sampling) -> None:
    """Refuse a sampling that the launched model or its layout cannot serve.

    Raises:
        SpecError: CFG-parallel without two branches, or guidance of a transformer that is not
            there.
    """
    problem = second_problem(folder, family, sampling) or guidance_problem(
        support_of(family.name), spec.parallelism, sampling
    )
    if problem:
        raise SpecError(problem)


def check_prompts(spec: LaunchSpec, family: Family, prompts: Iterable[str]) -> None:
    """Refuse a prompt that the pipeline would fail on, and the engine with it.

    models/wan2_2/pipeline_wan2_2.py:704 and pipeline_wan2_2_i2v.py:490; plain diffusers takes it.

    Raises:
        SpecError: an empty prompt of a video.
    """
    if family.draws_videos and spec.runtime != "diffusers" and not all(prompts):
        raise SpecError(
            f"the prompt '' is empty, and vLLM-Omni draws no {family.name} video without one; say "
            "what to draw, or give ' ', which says nothing"
        )


def check_steps(folder: Path, sampling: Sampling) -> None:
    """Refuse a single step where the schedule stretches its steps to an end that is not 0.

    diffusers' FlowMatchEulerDiscreteScheduler divides by 0 then, and all latents are NaN.

    Raises:
        SpecError: such a schedule, and one step.
    """
    config = folder / "scheduler" / "scheduler_config.json"
    end = read_json(config).get("shift_terminal") if config.is_file() else None
    if end and sampling.num_inference_steps == 1:
        raise SpecError(
            f"num_inference_steps=1: the schedule of {folder.name} is stretched to end at "
            f"shift_terminal={end}, which takes 2 steps or more"
        )


def _index_problem(family: Family, folder: Path) -> str | None:
    """Entries of an image-to-video index that vLLM-Omni 0.30.0 takes for something else."""
    if family.name != "wan-i2v":
        return None
    index = read_json(folder / "model_index.json")
    if index.get("expand_timesteps"):  # pipeline_wan2_2_i2v.py:343 looks elsewhere
        return (
            f"{folder}/model_index.json: a {index['_class_name']} with expand_timesteps is read as "
            "one without; call it WanPipeline there, which draws from first frames too"
        )
    if "transformer_2" in index and not (index["transformer_2"] or [None])[0]:
        return (
            f"{folder}/model_index.json names a transformer_2 that is null, and vLLM-Omni would "
            "build one of 14 billion parameters (pipeline_wan2_2_i2v.py:233); remove the entry"
        )
    return None


def _check_layout(spec: LaunchSpec, family: Family, folder: Path) -> None:
    for component, heads in _heads(family, folder):
        if problem := heads_problem(component, heads, spec.parallelism):
            raise SpecError(problem)


def _heads(family: Family, folder: Path) -> Iterator[tuple[str, int]]:
    """Transformer -> attention heads of its queries."""
    for component in family.transformers:
        if (folder / component / "config.json").is_file():
            yield component, heads_of(folder / component, preset_of(family.name).heads)[0]


def _check_devices(spec: LaunchSpec, here: int, heads: list[int], *, on_cpu: bool) -> None:
    asked = spec.parallelism
    fits = map(describe, fitting(asked, here, heads))
    workers = (
        f"{asked.world_size} worker processes; on CPU at most {here} are started "
        f"({os.cpu_count()} cores)"
    )
    if problem := device_problem(asked, here, fits, workers if on_cpu else ""):
        raise NotSupportedHere(f"{describe(asked)} {problem}")


def _check_gpus(spec: LaunchSpec, devices: list[dict[str, Any]]) -> None:
    capability = tuple(devices[0]["compute_capability"])
    least = {"fp8": FP8_CAPABILITY, "int8": INT8_CAPABILITY}.get(spec.quantization or "", (0, 0))
    if capability < least:
        raise NotSupportedHere(
            f"{spec.precision} in 8 bits needs compute capability {least[0]}.{least[1]}"
            f", and {devices[0]['name']} has {capability[0]}.{capability[1]}; use BF16 or W4A16"
        )


def _check_cpu(spec: LaunchSpec) -> None:
    if spec.attention_backend not in (None, *ON_CPU):
        raise NotSupportedHere(
            f"attention_backend={spec.attention_backend!r} needs a GPU; on CPU use {ON_CPU[0]}"
        )
    if problem := ring_problem(spec.parallelism, on_cpu=True):
        raise NotSupportedHere(problem)
    if not spec.enforce_eager and not any(map(shutil.which, COMPILERS)):
        raise NotSupportedHere(
            f"enforce_eager=False compiles with one of {', '.join(COMPILERS)}, and none is here; "
            "install one, or launch with enforce_eager=True"
        )
