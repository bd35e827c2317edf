"""What cannot work is refused here, before anything loads."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from workbench.errors import NotSupportedHere, SpecError
from workbench.provenance import gpus
from workbench.specs import LaunchSpec, Sampling
from workbench.zoo.families import Family

MOST_CPU_WORKERS = 8
STEPWISE = ("qwen-image",)
FP8_CAPABILITY = (8, 9)
INT8_CAPABILITY = (8, 0)
ON_CPU = ("TORCH_SDPA",)
COMPILERS = ("g++", "clang++")  # of which torch's inductor needs one on CPU


def check_launch(spec: LaunchSpec, family: Family, folder: Path) -> None:
    """Refuse what this model or this machine cannot do.

    Raises:
        SpecError: the request contradicts the model.
        NotSupportedHere: it needs another machine.
    """
    _check_layout(spec, family, folder)
    _check_steps(spec, family)
    devices = gpus()
    if devices:
        _check_gpus(spec, devices)
    else:
        _check_cpu(spec)


def check_sampling(spec: LaunchSpec, family: Family, sampling: Sampling) -> None:
    """Refuse a sampling that the launched layout cannot serve.

    Raises:
        SpecError: CFG-parallel without two branches, or a video field on an image model.
    """
    scale = getattr(sampling, family.guidance)
    if spec.parallelism.cfg_parallel_size == 2 and (
        not scale or scale <= 1 or sampling.negative_prompt is None
    ):
        raise SpecError(
            f"cfg_parallel_size=2 splits two branches, but {family.guidance}={scale} with "
            f"negative_prompt={sampling.negative_prompt!r} has one; set {family.guidance} above 1 "
            "and a negative_prompt, or launch with cfg_parallel_size=1"
        )
    if sampling.num_frames is not None and family.name != "wan":
        raise SpecError(
            f"num_frames={sampling.num_frames}: {family.name} draws images; leave num_frames out"
        )


def _check_layout(spec: LaunchSpec, family: Family, folder: Path) -> None:
    for component in family.transformers:
        config = folder / component / "config.json"
        if not config.is_file():
            continue
        facts = json.loads(config.read_text())
        heads = facts["num_attention_heads"]
        for name in ("tensor_parallel_size", "ulysses_degree"):
            degree = getattr(spec.parallelism, name)
            if heads % degree:
                valid = [n for n in range(1, heads + 1) if heads % n == 0]
                raise SpecError(
                    f"{name}={degree} does not divide the {heads} attention heads of {component}; "
                    f"use one of {valid}"
                )
        _check_groups(spec, component, facts)


def _check_groups(spec: LaunchSpec, component: str, facts: dict[str, Any]) -> None:
    degree = spec.parallelism.tensor_parallel_size
    hidden = facts["num_attention_heads"] * facts["attention_head_dim"]
    if spec.recipe is not None and spec.recipe.block and (hidden // degree) % spec.recipe.block:
        raise SpecError(
            f"group_size={spec.recipe.block} does not divide the {hidden // degree} input "
            f"channels that each of {degree} ranks holds of {component}; quantize with a smaller "
            "group_size, or lower tensor_parallel_size"
        )


def _check_steps(spec: LaunchSpec, family: Family) -> None:
    if spec.step_execution and family.name not in STEPWISE:
        raise SpecError(
            f"step_execution=True: vLLM-Omni 0.30.0 steps {', '.join(STEPWISE)}, "
            f"not {family.name}; launch with step_execution=False"
        )


def _check_gpus(spec: LaunchSpec, devices: list[dict[str, Any]]) -> None:
    if spec.parallelism.world_size > len(devices):
        raise NotSupportedHere(
            f"this layout needs {spec.parallelism.world_size} GPUs and {len(devices)} are here; "
            "lower the parallel sizes"
        )
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
    if spec.parallelism.ring_degree > 1:
        raise NotSupportedHere(
            f"ring_degree={spec.parallelism.ring_degree} runs CUDA kernels; on CPU use "
            "ulysses_degree"
        )
    if not spec.enforce_eager and not any(map(shutil.which, COMPILERS)):
        raise NotSupportedHere(
            f"enforce_eager=False compiles with one of {', '.join(COMPILERS)}, and none is here; "
            "install one, or launch with enforce_eager=True"
        )
    if spec.parallelism.world_size > MOST_CPU_WORKERS:
        raise NotSupportedHere(
            f"this layout needs {spec.parallelism.world_size} worker processes; on CPU at most "
            f"{MOST_CPU_WORKERS} are started ({os.cpu_count()} cores here)"
        )
