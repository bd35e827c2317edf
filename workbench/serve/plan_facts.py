"""What the planner knows of a model: its linears by kind, heads and VAE, from headers and configs.

A block repeats, so its linears are read once and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.errors import ModelNotFound
from workbench.serve.expected import components, method_of
from workbench.serve.shards import Share, share_of
from workbench.specs import LaunchSpec
from workbench.zoo.component_configs import ENCODER_HEADS, Vae, heads_of, vae_of
from workbench.zoo.families import Family
from workbench.zoo.inventory import StoredLinear, modules
from workbench.zoo.parallel import Support, support_of
from workbench.zoo.presets import Preset, kept_reason, preset_of
from workbench.zoo.weights import PATTERN, TensorFacts, tensors

BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
_FLOATS = ("BF16", "F16", "F32", "F64")
_FIRST_NUMBER = re.compile(r"\.\d+\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Linears that differ by the number of their block only."""

    component: str
    name: str
    """Of the first, in the file, without the component."""
    number: int
    """How many there are."""
    outputs: int
    inputs: int
    scheme: str
    """That the engine runs it in: a name of SCHEMES, FP8 or INT8 online, or 16 bit."""
    share: Share | None
    """How tensor parallelism divides it; None is whole on every rank."""
    divided: int
    """Bytes of one that ranks divide among themselves."""
    whole: int
    """Bytes of one that every rank holds."""
    bias: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One pipeline at one precision."""

    family: Family
    preset: Preset
    support: Support
    element: int
    """Bytes of a 16-bit number as it is loaded; 4 at float32."""
    parts: tuple[Part, ...]
    whole: Mapping[str, int]
    """Component -> bytes besides its parts that every rank holds."""
    divided: Mapping[str, int]
    """Text encoder -> bytes that ranks divide."""
    heads: Mapping[str, tuple[int, int | None]]
    """Transformer, or text encoder that is divided -> heads of queries, and of keys and values."""
    vae: Vae


def facts_of(spec: LaunchSpec, family: Family, folder: Path) -> Facts:
    """Read a pipeline's headers and configs; no weights.

    Args:
        spec: Gives dtype, online quantization and the recipe of a checkpoint.
        family: Of the pipeline.
        folder: Where it lies.

    Raises:
        SpecError: a family without a preset, or without known layouts.
        ModelNotFound: weight files or configs that are missing or broken.
    """
    preset, support = preset_of(family.name), support_of(family.name)
    element, parts, whole = BYTES[spec.dtype], [], {}
    names = components(folder, family)
    if not names:
        raise ModelNotFound(
            f"{folder} holds no weights of {', '.join(family.transformers)}, so there is nothing "
            "to plan; give a whole pipeline folder"
        )
    for name in names:
        how = _Precision.of(folder / name, spec)
        whole[name] = 0
        for found, number in _alike(tensors(folder / name)):
            linears = modules(found)
            parts += [_part(name, one, number, preset, how) for one in linears.values()]
            whole[name] += number * _floats(found, linears, element)
    if not parts:
        raise ModelNotFound(
            f"{folder}: {', '.join(names)} has weight files without a linear in them; download or "
            "save the model again"
        )
    encoders = {
        name: folder / name for name in support.encoders if any((folder / name).glob(PATTERN))
    }
    other, divided = _others(folder, preset, support, names, element)
    return Facts(
        family=family,
        preset=preset,
        support=support,
        element=element,
        parts=tuple(parts),
        whole={**whole, **other},
        divided=divided,
        heads={
            **{name: heads_of(folder / name, preset.heads) for name in names},
            **{name: heads_of(path, ENCODER_HEADS) for name, path in encoders.items()},
        },
        vae=vae_of(folder / "vae"),
    )


def cut_problem(parts: Iterable[Part], size: int) -> str | None:
    """What so many tensor-parallel ranks cut, in one sentence: the first linear, and how many more.

    Args:
        parts: The linears.
        size: How many ranks.
    """
    cut = [(p, problem) for p in parts if p.share and (problem := p.share.problem(size))]
    if not cut:
        return None
    first, problem = cut[0]
    more = sum(part.number for part, _ in cut) - 1
    advice = "; use a size that divides it"
    if more:
        advice = f"; so it is with {more} more linears: use a size that divides them all"
    where = f"{first.component}.{first.name} in {first.scheme}"
    return f"tensor_parallel_size={size}: {where} {problem}{advice}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Precision:
    element: int
    method: str
    online: str | None

    @classmethod
    def of(cls, component: Path, spec: LaunchSpec) -> _Precision:
        method = method_of(component, spec.recipe)
        return cls(element=BYTES[spec.dtype], method=method, online=spec.quantization)


def _alike(found: Mapping[str, TensorFacts]) -> Iterator[tuple[dict[str, TensorFacts], int]]:
    """The tensors of one module of each kind, and how many modules differ in a number only."""
    owners: dict[str, dict[str, TensorFacts]] = {}
    for name, facts in found.items():
        owners.setdefault(name.rpartition(".")[0], {})[name] = facts
    kinds: dict[tuple[Any, ...], list[str]] = {}
    for owner, own in owners.items():
        pattern = _FIRST_NUMBER.sub(".0.", owner, count=1)
        stored = ((name[len(owner) :], facts.dtype, facts.shape) for name, facts in own.items())
        kinds.setdefault((pattern, *stored), []).append(owner)
    for first, *more in kinds.values():
        yield owners[first], 1 + len(more)


def _part(
    component: str, linear: StoredLinear, number: int, preset: Preset, how: _Precision
) -> Part:
    kept = kept_reason(preset, linear.name, how.method) is not None
    packed = linear.quantized and not kept
    online = how.online if not kept and not linear.quantized else None
    share = share_of(preset, linear, packed=packed)
    matrices, vectors = _bytes(linear, how.element, packed, online)
    whole = 0 if share else matrices + vectors
    if share and share.side == "input channels":
        whole = vectors
    return Part(
        component=component,
        name=linear.name,
        number=number,
        outputs=linear.shape[0],
        inputs=linear.shape[1],
        scheme=online.upper() if online else linear.scheme if packed else "BF16",
        share=share,
        divided=matrices + vectors - whole,
        whole=whole,
        bias="bias" in linear.tensors,
    )


def _bytes(linear: StoredLinear, element: int, packed: bool, online: str | None) -> tuple[int, int]:
    """Of the weight with the scales of its groups, and of the bias with the other scales."""
    if not packed:
        scales = {"fp8": 4, "int8": 4 * linear.shape[0]}.get(online or "", 0)
        bias = linear.shape[0] * element if "bias" in linear.tensors else 0
        return linear.parameters * (1 if online else element), bias + scales
    every = linear.tensors.values()
    matrices = sum(t.nbytes for t in every if len(t.shape) == 2 and t.shape[1] > 1)
    return matrices, sum(t.nbytes for t in every) - matrices


def _floats(
    found: Mapping[str, TensorFacts], linears: Mapping[str, StoredLinear], element: int
) -> int:
    """Bytes of what belongs to no linear: norms, embeddings, convolutions, tables."""
    return sum(
        facts.parameters * element if facts.dtype in _FLOATS else facts.nbytes
        for name, facts in found.items()
        if name.rpartition(".")[0] not in linears
    )


def _others(
    folder: Path, preset: Preset, support: Support, denoisers: tuple[str, ...], element: int
) -> tuple[dict[str, int], dict[str, int]]:
    """Bytes of the encoders and the VAE: whole on every rank, and divided."""
    whole, divided = {}, {}
    for name in (one.name for one in preset.components if one.name not in denoisers):
        if not any((folder / name).glob(PATTERN)):
            continue
        found = {
            tensor: facts
            for tensor, facts in tensors(folder / name).items()
            if not any(part in f".{tensor}" for part in support.not_loaded)
        }
        linears = modules(found) if name in support.encoders else {}
        divided[name] = sum(one.parameters * element for one in linears.values())
        whole[name] = _floats(found, linears, element)
    return whole, {name: size for name, size in divided.items() if size}
