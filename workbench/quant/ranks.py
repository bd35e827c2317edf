"""How many tensor-parallel ranks a checkpoint can run on, from names and shapes alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import SpecError
from workbench.recipes import QuantRecipe
from workbench.schemes import INTEGER, SCHEMES
from workbench.zoo.inventory import StoredLinear, linears
from workbench.zoo.names import fused_group
from workbench.zoo.presets import Preset, kept_reason

SIZES = (1, 2, 4, 8)
_OUTPUTS = {"W4A16": 32, "W8A16": 32}
_TILE = 16


def block_of(recipe: QuantRecipe, scheme: str) -> int:
    """Input channels that share one scale in a scheme of a recipe; 0 where a whole row does."""
    return (recipe.group_size or 128) if scheme in INTEGER else SCHEMES[scheme].block


def inputs_unit(recipe: QuantRecipe, scheme: str) -> int:
    """What a rank's inputs must be a multiple of: the block, else the tensor cores' 16."""
    return block_of(recipe, scheme) or _TILE


def outputs_unit(scheme: str) -> int:
    """What a rank's outputs must be a multiple of: int32 words, else the kernels' 16."""
    return _OUTPUTS.get(scheme, _TILE)


def run_quantized(preset: Preset, layers: Mapping[str, str], method: str) -> dict[str, str]:
    """Of the stored layers those that the engine multiplies as stored; it widens the rest."""
    return {n: s for n, s in layers.items() if kept_reason(preset, n, method) is None}


def heads_of(component: Path, preset: Preset) -> dict[str, int]:
    """Numbers of attention heads in a component's config.json, by their key."""
    facts = json.loads((component / "config.json").read_text())
    return {key: facts[key] for key in preset.heads if isinstance(facts.get(key), int)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards:
    """The quantized linears of one component, as tensor parallelism would cut them."""

    layers: Mapping[str, str]
    """Linear -> scheme, those that the engine runs as stored."""
    stored: Mapping[str, StoredLinear]
    preset: Preset
    recipe: QuantRecipe
    heads: Mapping[str, int]
    """Key in config.json -> number of attention heads."""

    @classmethod
    def of(
        cls, component: Path, layers: Mapping[str, str], preset: Preset, recipe: QuantRecipe
    ) -> Shards:
        """Of a 16-bit component's folder and the layers planned for it."""
        return cls(
            layers=run_quantized(preset, layers, recipe.method),
            stored=linears(component),
            preset=preset,
            recipe=recipe,
            heads=heads_of(component, preset),
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of 1, 2, 4 and 8 ranks, those at which no head and no block of scales is cut."""
        return tuple(size for size in SIZES if not self.cut(size))

    def check(self, size: int) -> None:
        """Refuse a number of ranks, 1 or more, that would cut a head or a block of scales.

        Raises:
            SpecError: names what is cut, and the sizes that would do.
        """
        if problem := self.cut(size):
            fit = ", ".join(map(str, self.sizes)) or "no size"
            raise SpecError(
                f"tensor_parallel_size={size}: {problem}; this checkpoint would run at {fit}; "
                "choose one of these or a smaller group_size"
            )

    def cut(self, size: int) -> str | None:
        """The first thing that a number of ranks cuts, or None."""
        for key, count in self.heads.items():
            if count % size:
                return f"{key}={count} does not split among {size} ranks"
        return next((found for name in self.layers for found in self._cut(name, size)), None)

    def _cut(self, name: str, size: int) -> Iterator[str]:
        if f".{name}".endswith(self.preset.replicated):
            return
        outputs, inputs = self.stored[name].shape
        scheme = self.layers[name]
        if f".{name}".endswith(self.preset.row_parallel):
            count, unit, side = inputs, inputs_unit(self.recipe, scheme), "inputs"
        else:
            count, unit, side = outputs, outputs_unit(scheme), "outputs"
        if count % size or (count // size) % unit:
            layer = fused_group(self.preset, name)
            into = f" (in {layer.runtime})" if layer else ""
            yield (
                f"{name}{into} in {scheme} gives each rank {count}/{size} {side}, "
                f"which is no multiple of {unit}"
            )


def sizes_of(
    source: Path, layers: Mapping[str, Mapping[str, str]], preset: Preset, recipe: QuantRecipe
) -> list[int]:
    """Numbers of ranks at which every component of a checkpoint runs.

    Args:
        source: The 16-bit pipeline.
        layers: Component -> linear -> scheme.
        preset: The family's.
        recipe: Gives the size of the blocks.
    """
    fit = set(SIZES)
    for name, planned in layers.items():
        fit &= set(Shards.of(source / name, planned, preset, recipe).sizes)
    return sorted(fit)
