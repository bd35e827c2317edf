"""Which linears of a pipeline a recipe quantizes, decided from the file headers before any work."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.errors import ModelNotFound, SpecError
from workbench.quant import checks
from workbench.quant.ranks import Shards
from workbench.recipes import KEEP, MIXES, QuantRecipe
from workbench.schemes import MIXED
from workbench.specs import Parallelism
from workbench.zoo.families import Family, family_of
from workbench.zoo.inventory import StoredLinear, linears
from workbench.zoo.names import matches
from workbench.zoo.presets import Preset, inside_blocks, kept_reason, preset_of

CHOSEN = "the recipe keeps it"
WIDENED_IN = "transformer"  # vllm_omni/diffusion/model_loader/checkpoint_adapters/modelopt.py:82
NOT_WIDENED = f"the engine turns stored FP8 back into 16 bit in the {WIDENED_IN} alone"


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

    ``ignore`` goes before ``layer_schemes``, where the last rule that matches wins and BF16 keeps
    a linear like ``ignore`` does. MIXED by ``effective_bits`` has its sensitive layers named
    later, by a measurement (:meth:`Plan.decided`); until then all are in the small scheme.

    Args:
        source: Pipeline in diffusers layout.
        recipe: What to do with it.
        tensor_parallel_size: Ranks that the checkpoint must be able to run on, 1 or more.

    Raises:
        SpecError: the recipe does not fit this model or the engine that is to load it.
        ModelNotFound: an unknown pipeline class, or weights that are not there.
    """
    ranks = Parallelism(tensor_parallel_size=tensor_parallel_size).tensor_parallel_size
    family = family_of(source)
    preset = preset_of(family.name)
    if not preset.offline:
        checks.recipe_fits(recipe, preset, family.transformers)
    components = _transformers(source, family)
    checks.recipe_fits(recipe, preset, components)
    if recipe.calibration is not None:
        checks.calibration_fits(recipe.calibration, source)
    stored = {component: linears(source / component) for component in components}
    checks.rules_match(recipe, preset, stored)
    layers, kept = {}, {}
    for component in components:
        chosen, kept[component] = _choose(recipe, preset, stored[component], component)
        checks.something_is_left(recipe, chosen, component)
        checks.shapes_fit(chosen, stored[component], preset, recipe, component)
        checks.fused_agree(preset, stored[component], chosen, recipe)
        Shards.of(source / component, chosen, preset, recipe).check(ranks)
        layers[component] = chosen
    return Plan(family=family, preset=preset, layers=layers, kept=kept)


def _choose(
    recipe: QuantRecipe, preset: Preset, stored: dict[str, StoredLinear], component: str
) -> tuple[dict[str, str], dict[str, str]]:
    layers, kept = {}, {}
    for name in stored:
        scheme = _scheme(recipe, preset, name, component)
        engine = kept_reason(preset, name, recipe.method)
        if scheme != KEEP and (engine is None or _widened(recipe, component)):
            layers[name] = scheme
        elif inside_blocks(preset, name):
            kept[name] = engine or CHOSEN
        elif recipe.all_linears and scheme != KEEP:
            kept[name] = NOT_WIDENED
    return layers, kept


def _widened(recipe: QuantRecipe, component: str) -> bool:
    """Whether the engine turns stored FP8 back into 16 bit where it runs no FP8."""
    return recipe.all_linears and component == WIDENED_IN


def _scheme(recipe: QuantRecipe, preset: Preset, name: str, component: str) -> str:
    if any(matches(preset, pattern, name, component) for pattern in recipe.ignore):
        return KEEP
    chosen = MIXES[recipe.method][0] if recipe.scheme == MIXED else recipe.scheme
    for pattern, scheme in recipe.layer_schemes:
        if matches(preset, pattern, name, component):
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
