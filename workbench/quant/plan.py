"""Which linears of a pipeline a recipe quantizes, decided from the file headers before any work."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.errors import ModelNotFound, SpecError
from workbench.quant import checks
from workbench.recipes import KEEP, MIXES, QuantRecipe
from workbench.schemes import MIXED
from workbench.zoo.families import Family, family_of
from workbench.zoo.inventory import StoredLinear, linears
from workbench.zoo.names import matches
from workbench.zoo.presets import Preset, kept_reason, preset_of

CHOSEN = "the recipe keeps it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Linears of every transformer of a pipeline, by component and name in the file."""

    family: Family
    preset: Preset
    layers: dict[str, dict[str, str]]
    """Component -> linear -> scheme that it is written in."""
    kept: dict[str, dict[str, str]]
    """Component -> linear inside the blocks that stays in 16 bit -> why."""

    @property
    def quantized(self) -> dict[str, tuple[str, ...]]:
        """Component -> linears that are quantized."""
        return {component: tuple(layers) for component, layers in self.layers.items()}

    def decided(self, component: str, schemes: dict[str, str]) -> Plan:
        """This plan with the schemes of a component chosen anew, as a sensitivity does."""
        return replace(self, layers={**self.layers, component: schemes})


def make_plan(source: Path, recipe: QuantRecipe, *, tensor_parallel_size: int = 1) -> Plan:
    """Choose the layers, and refuse what would fail later.

    MIXED by ``effective_bits`` has its sensitive layers named later, by a measurement
    (:meth:`Plan.decided`); until then all are in the small scheme.

    Args:
        source: Pipeline in diffusers layout.
        recipe: What to do with it.
        tensor_parallel_size: Ranks that the checkpoint must be able to run on.

    Raises:
        SpecError: the recipe does not fit this model or the engine that is to load it.
        ModelNotFound: an unknown pipeline class, or weights that are not there.
    """
    family = family_of(source)
    preset = preset_of(family.name)
    components = _transformers(source, family)
    checks.recipe_fits(recipe, preset, components)
    layers, kept = {}, {}
    for component in components:
        stored = linears(source / component)
        checks.patterns_match(recipe, preset, stored, component)
        layers[component], kept[component] = _choose(recipe, preset, stored)
        checks.something_is_left(recipe, layers[component], component)
        checks.shapes_fit(layers[component], stored, recipe, component)
        checks.fused_agree(preset, stored, layers[component])
        checks.ranks_fit(layers[component], stored, preset, recipe, tensor_parallel_size)
    return Plan(family=family, preset=preset, layers=layers, kept=kept)


def _choose(
    recipe: QuantRecipe, preset: Preset, stored: dict[str, StoredLinear]
) -> tuple[dict[str, str], dict[str, str]]:
    layers, kept = {}, {}
    for name in stored:
        scheme = _scheme(recipe, preset, name)
        engine = kept_reason(preset, name, recipe.method)
        if scheme != KEEP and (engine is None or recipe.all_linears):
            layers[name] = scheme
        elif name.startswith(tuple(f"{block}." for block in preset.blocks)):
            kept[name] = engine or CHOSEN
    return layers, kept


def _scheme(recipe: QuantRecipe, preset: Preset, name: str) -> str:
    if any(matches(preset, pattern, name) for pattern in recipe.ignore):
        return KEEP
    chosen = MIXES[recipe.method][0] if recipe.scheme == MIXED else recipe.scheme
    for pattern, scheme in recipe.layer_schemes:
        if matches(preset, pattern, name):
            chosen = scheme
    return chosen


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
