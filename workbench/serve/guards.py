"""What cannot work is refused here, before anything loads."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.errors import NotSupportedHere, SpecError
from workbench.provenance import gpus
from workbench.serve.checkpoint_guards import FP8_CAPABILITY, check_checkpoint
from workbench.serve.layouts import describe, fitting
from workbench.specs import LaunchSpec, Sampling
from workbench.zoo.families import Family

MOST_CPU_WORKERS = 8
STEPWISE = ("qwen-image",)
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
    _check_layout(spec, family, folder)
    _check_steps(spec, family)
    devices = gpus()
    heads = [facts["num_attention_heads"] for _, facts in _configs(family, folder)]
    _check_devices(spec, len(devices) or MOST_CPU_WORKERS, heads, on_cpu=not devices)
    if devices:
        _check_gpus(spec, devices)
    else:
        _check_cpu(spec)
    check_checkpoint(spec, family, folder, devices)


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
    for component, facts in _configs(family, folder):
        _check_heads(spec, component, facts["num_attention_heads"])


def _configs(family: Family, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for component in family.transformers:
        config = folder / component / "config.json"
        if config.is_file():
            yield component, json.loads(config.read_text())


def _check_heads(spec: LaunchSpec, component: str, heads: int) -> None:
    """Each rank of tensor parallelism holds whole heads, which Ulysses then shares out again.

    vllm_omni/diffusion/attention/parallel/ulysses.py:514.
    """
    layout = spec.parallelism
    for name, degree, among in (
        ("tensor_parallel_size", layout.tensor_parallel_size, heads),
        ("ulysses_degree", layout.ulysses_degree, heads // layout.tensor_parallel_size),
    ):
        if among < 1 or among % degree:
            valid = [n for n in range(1, among + 1) if among % n == 0]
            left = "" if among == heads else f", of which each tensor-parallel rank has {among}"
            raise SpecError(
                f"{name}={degree} does not divide the {heads} attention heads of {component}{left};"
                f" use one of {valid}"
            )


def _check_steps(spec: LaunchSpec, family: Family) -> None:
    if spec.step_execution and family.name not in STEPWISE:
        raise SpecError(
            f"step_execution=True: vLLM-Omni 0.30.0 steps {', '.join(STEPWISE)}, "
            f"not {family.name}; launch with step_execution=False"
        )


def _check_devices(spec: LaunchSpec, here: int, heads: list[int], *, on_cpu: bool) -> None:
    needed = spec.parallelism.world_size
    if needed <= here:
        return
    fit = fitting(spec.parallelism, here, heads)
    seen = (
        f"{needed} worker processes; on CPU at most {here} are started ({os.cpu_count()} cores)"
        if on_cpu
        else f"{needed} GPUs and {here} are here"
    )
    raise NotSupportedHere(
        f"{describe(spec.parallelism)} needs {seen}; these fit: "
        + ", or ".join(describe(layout) for layout in fit)
    )


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
