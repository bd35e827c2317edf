"""What a quantized checkpoint needs of the machine and the layout, from its headers alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from workbench.errors import NotSupportedHere, SpecError
from workbench.schemes import SCHEMES
from workbench.serve.expected import expectations
from workbench.serve.shards import share_of
from workbench.specs import LaunchSpec
from workbench.zoo.families import Family
from workbench.zoo.inventory import StoredLinear
from workbench.zoo.presets import Preset, preset_of

FP8_CAPABILITY = (8, 9)
LEAST_CAPABILITY = {
    "W4A16": (7, 5),
    "W8A16": (7, 5),
    "FP8": FP8_CAPABILITY,
    "FP8_PER_CHANNEL_PER_TOKEN": FP8_CAPABILITY,
    "NVFP4": (7, 5),
    "MXFP8": (8, 0),
    "MXFP4": (8, 0),
}
"""Compute capability below which vLLM 0.30 has no kernel for a scheme at all.

``get_min_capability`` and ``is_supported`` in vllm/model_executor/kernels/linear; vLLM-Omni asks
8.9 of ModelOpt FP8 (worker/diffusion_worker.py:186).
"""
NATIVE_CAPABILITY = {"NVFP4": (10, 0), "MXFP4": (10, 0), "MXFP8": (10, 0)}
"""Below these the weight is read packed and multiplied in 16 bit, or emulated."""
_SIZES = (1, 2, 4, 8)


def check_checkpoint(
    spec: LaunchSpec, family: Family, folder: Path, devices: Sequence[dict[str, Any]]
) -> None:
    """Refuse a quantized checkpoint that this layout would cut or this GPU has no kernel for.

    Args:
        spec: What is launched; without a recipe or ``stored`` nothing is checked.
        family: Of the pipeline.
        folder: Where it lies.
        devices: GPUs of this machine; none is a CPU, where every scheme has a kernel.

    Raises:
        SpecError: a tensor-parallel size that cuts a group or a block of scales.
        NotSupportedHere: a GPU without a kernel for it.
    """
    if spec.recipe is None and spec.stored is None:
        return
    preset = preset_of(family.name)
    layers = list(_quantized(folder, family, spec))
    size = spec.parallelism.tensor_parallel_size
    for name, linear in layers:
        if problem := _cut(preset, linear, size):
            fit = [n for n in _SIZES if not any(_cut(preset, one, n) for _, one in layers)]
            raise SpecError(
                f"tensor_parallel_size={size}: {name} in {linear.scheme} {problem}; this "
                f"checkpoint runs at {', '.join(map(str, fit)) or 'none of 1, 2, 4 and 8'}: use "
                "one of them, or quantize with a smaller group_size"
            )
    if devices:
        _check_capability({linear.scheme for _, linear in layers}, devices[0])


def _quantized(
    folder: Path, family: Family, spec: LaunchSpec
) -> Iterator[tuple[str, StoredLinear]]:
    """(component and name, linear) of all that the engine multiplies as stored."""
    for layer, one in expectations(folder, family, spec).items():
        for member in one.members if one.kept is None else ():
            if member.quantized:
                yield f"{layer.partition('.')[0]}.{member.name}", member


def _cut(preset: Preset, linear: StoredLinear, size: int) -> str | None:
    share = share_of(preset, linear, packed=True)
    return share.problem(size) if share else None


def _check_capability(schemes: set[str], device: dict[str, Any]) -> None:
    have = tuple(device["compute_capability"])
    for scheme in sorted(schemes):
        least = LEAST_CAPABILITY[scheme]
        if have < least:
            raise NotSupportedHere(
                f"{SCHEMES[scheme].label} needs compute capability {least[0]}.{least[1]}, and "
                f"{device['name']} has {have[0]}.{have[1]}; use BF16 or W4A16"
            )
