"""Which linears of a pipeline a recipe packs, decided from the file headers before any work."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import ModelNotFound, SpecError
from workbench.quant.presets import Fused, Preset, preset_of
from workbench.specs import QuantRecipe
from workbench.zoo.families import Family, family_of
from workbench.zoo.weights import TensorFacts, tensors

_SUFFIX = ".weight"
_PACKED = 32  # in- and out-features that int32 words of 4-bit values and vLLM's kernels need


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Linears of every transformer of a pipeline, by component."""

    family: Family
    preset: Preset
    quantized: dict[str, tuple[str, ...]]
    kept: dict[str, tuple[str, ...]]
    """Linears inside the blocks that stay in 16 bit."""


def make_plan(source: Path, recipe: QuantRecipe) -> Plan:
    """Choose the layers, and refuse what would fail later.

    Args:
        source: Pipeline in diffusers layout.
        recipe: What to do with it.

    Raises:
        SpecError: the recipe does not fit this model or the engine that is to load it.
        ModelNotFound: an unknown pipeline class, or weights that are not there.
    """
    family = family_of(source)
    preset = preset_of(family.name)
    components = _transformers(source, family)
    _check_recipe(recipe, components)
    quantized, kept = {}, {}
    for component in components:
        linears = _linears(source / component)
        inside = [n for n in linears if n.startswith(tuple(f"{b}." for b in preset.blocks))]
        _check_patterns(recipe.ignore, linears, component, inside)
        parts = (*(keep.part for keep in preset.keep), *recipe.ignore)
        kept[component] = tuple(n for n in inside if any(p in f"{n}." for p in parts))
        quantized[component] = tuple(n for n in inside if n not in set(kept[component]))
        _check_layers(quantized[component], linears, recipe, component)
        _check_fused(preset.fused, quantized[component], kept[component])
    return Plan(family=family, preset=preset, quantized=quantized, kept=kept)


def _transformers(source: Path, family: Family) -> tuple[str, ...]:
    index = json.loads((source / "model_index.json").read_text())
    found = tuple(name for name in family.transformers if (index.get(name) or [None])[0])
    for name in found:
        config = source / name / "config.json"
        if not config.is_file():
            raise ModelNotFound(
                f"{source} names a {name} but holds no {config.name} of it; download it again"
            )
        method = json.loads(config.read_text()).get("quantization_config")
        if method:
            raise SpecError(
                f"{source} is quantized already "
                f"({name}: {method.get('quant_method', 'unknown method')}); "
                "give the 16-bit model that it was made from"
            )
    if not found:
        raise ModelNotFound(
            f"{source} has none of {', '.join(family.transformers)}; give a whole pipeline"
        )
    return found


def _linears(folder: Path) -> dict[str, TensorFacts]:
    """Modules with a two-dimensional weight; inside the blocks these are all linears."""
    return {
        name.removesuffix(_SUFFIX): facts
        for name, facts in sorted(tensors(folder).items())
        if name.endswith(_SUFFIX) and len(facts.shape) == 2
    }


def _check_recipe(recipe: QuantRecipe, components: tuple[str, ...]) -> None:
    if not recipe.symmetric:
        raise SpecError(
            "symmetric=False: vLLM 0.30 has no kernel for asymmetric 4-bit weights in this layout "
            "(vllm/.../inc/schemes/inc_wna16_scheme.py); use symmetric=True"
        )
    steps = recipe.calibration.num_inference_steps if recipe.calibration else len(components)
    if steps < len(components):
        raise SpecError(
            f"num_inference_steps={steps}: each of {', '.join(components)} runs its own part of "
            f"the schedule, so calibration needs {len(components)} steps or more"
        )


def _check_patterns(
    ignore: tuple[str, ...], names: Iterable[str], component: str, inside: list[str]
) -> None:
    for pattern in ignore:
        if not pattern or not any(pattern in f"{name}." for name in names):
            raise SpecError(
                f"ignore={pattern!r} matches no linear of the {component}; "
                f"its blocks have {', '.join(_examples(inside))}"
            )


def _check_layers(
    chosen: tuple[str, ...], linears: dict[str, TensorFacts], recipe: QuantRecipe, component: str
) -> None:
    if not chosen:
        raise SpecError(
            f"nothing is left to quantize in the {component}: ignore={list(recipe.ignore)} keeps "
            "every linear of its blocks; ignore less"
        )
    for name in chosen:
        outputs, inputs = linears[name].shape
        if inputs % recipe.group_size or outputs % _PACKED:
            raise SpecError(
                f"group_size={recipe.group_size} does not fit {component}.{name}, which has "
                f"{inputs} inputs and {outputs} outputs: inputs must be a multiple of group_size "
                f"and outputs of {_PACKED}; take a smaller group_size of {_fitting(inputs)}, "
                f"or ignore={[name]}"
            )


def _fitting(inputs: int) -> str:
    return ", ".join(str(size) for size in (32, 64, 128) if inputs % size == 0) or "none"


def _check_fused(
    fused: tuple[Fused, ...], quantized: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    packed = set(quantized)
    for name in kept:
        owner, _, part = name.rpartition(".")
        for group in fused:
            if part in group.parts and owner.rpartition(".")[2] == group.parent:
                others = [p for p in group.parts if f"{owner}.{p}" in packed]
                if others:
                    raise SpecError(
                        f"ignore keeps {name} in 16 bit but not {', '.join(others)} beside it; "
                        f"vLLM-Omni loads {', '.join(group.parts)} into one {group.runtime}: "
                        "ignore all or none"
                    )


def _examples(names: list[str]) -> list[str]:
    """The names of the first block."""
    return [name for name in names if ".0." in name][:12]
