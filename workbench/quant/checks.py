"""What would fail hours later, refused from names and shapes alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from workbench.errors import SpecError
from workbench.recipes import KEEP, QuantRecipe
from workbench.schemes import INTEGER, MIXED, SCHEMES
from workbench.zoo.inventory import StoredLinear
from workbench.zoo.names import fused_group, matches, siblings
from workbench.zoo.presets import Preset

_OUTPUTS = {"W4A16": 32, "W8A16": 32, "NVFP4": 16, "MXFP4": 16}
"""Multiples that outputs must be: int32 words, and the tiles of vLLM's kernels."""
_FP8_TILE = 16  # both sides, for the tensor cores
_SIZES = (1, 2, 4, 8)


def recipe_fits(recipe: QuantRecipe, preset: Preset, components: tuple[str, ...]) -> None:
    """Refuse what no layer of this family could run.

    Raises:
        SpecError: an asymmetric scheme, a family that is not quantized offline, too few steps.
    """
    if preset.ignored or not preset.offline:
        raise SpecError(
            f"{preset.family} cannot be quantized into a checkpoint here"
            + (f": {preset.ignored}" if preset.ignored else "; serve it online, or in BF16")
        )
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


def patterns_match(
    recipe: QuantRecipe, preset: Preset, stored: Mapping[str, StoredLinear], component: str
) -> None:
    """Refuse a rule that means no linear.

    Raises:
        SpecError: names the pattern and some linears that there are.
    """
    rules = [("ignore", pattern) for pattern in recipe.ignore]
    rules += [("layer_schemes", pattern) for pattern, _ in recipe.layer_schemes]
    for field, pattern in rules:
        if not any(matches(preset, pattern, name) for name in stored):
            inside = [n for n in stored if n.startswith(tuple(f"{b}." for b in preset.blocks))]
            raise SpecError(
                f"{field}={pattern!r} matches no linear of the {component}; "
                f"its blocks have {', '.join(_examples(inside))}"
            )


def something_is_left(recipe: QuantRecipe, layers: Mapping[str, str], component: str) -> None:
    """Refuse a recipe that keeps every linear.

    Raises:
        SpecError: nothing is quantized.
    """
    if not layers:
        raise SpecError(
            f"nothing is left to quantize in the {component}: ignore={list(recipe.ignore)} keeps "
            "every linear of its blocks; ignore less"
        )


def shapes_fit(
    layers: Mapping[str, str],
    stored: Mapping[str, StoredLinear],
    recipe: QuantRecipe,
    component: str,
) -> None:
    """Refuse blocks and tiles that do not divide a linear.

    Raises:
        SpecError: names the linear, its shape, and what would fit.
    """
    for name, scheme in layers.items():
        outputs, inputs = stored[name].shape
        block, tile = _block(recipe, scheme), _OUTPUTS.get(scheme, _FP8_TILE)
        if scheme in INTEGER and (inputs % block or outputs % tile):
            raise SpecError(
                f"group_size={block} does not fit {component}.{name}, which has "
                f"{inputs} inputs and {outputs} outputs: inputs must be a multiple of group_size "
                f"and outputs of {tile}; take a smaller group_size of {_fitting(inputs)}, "
                f"or ignore={[name]}"
            )
        if inputs % (block or _FP8_TILE) or outputs % tile:
            raise SpecError(
                f"{scheme} does not fit {component}.{name}, which has {inputs} inputs and "
                f"{outputs} outputs: inputs must be a multiple of {block or _FP8_TILE} and outputs "
                f"of {tile}; ignore={[name]} keeps it in 16 bit"
            )


def fused_agree(
    preset: Preset, stored: Mapping[str, StoredLinear], layers: Mapping[str, str]
) -> None:
    """Refuse more than one scheme within a layer that the engine loads as one.

    Raises:
        SpecError: names the members and their schemes.
    """
    for name in stored:
        group = fused_group(preset, name)
        if group is None:
            continue
        members = {one: layers.get(one, KEEP) for one in siblings(preset, name) if one in stored}
        if len(set(members.values())) > 1:
            parts = ", ".join(f"{one.rpartition('.')[2]} {s}" for one, s in members.items())
            raise SpecError(
                f"{name.rpartition('.')[0]} would hold {parts}; vLLM-Omni loads "
                f"{', '.join(group.parts)} into one {group.runtime}: ignore all or none, and give "
                "all the same scheme"
            )


def ranks_fit(
    layers: Mapping[str, str],
    stored: Mapping[str, StoredLinear],
    preset: Preset,
    recipe: QuantRecipe,
    size: int,
) -> None:
    """Refuse a tensor-parallel size whose ranks would cut a block of scales.

    Raises:
        SpecError: names the linear, and the sizes that would do.
    """
    for name, scheme in layers.items():
        problem = _cut(name, stored[name], preset, _block(recipe, scheme), size)
        if problem:
            sizes = tensor_parallel_sizes(layers, stored, preset, recipe)
            raise SpecError(
                f"tensor_parallel_size={size}: {name} in {scheme} {problem}; this checkpoint would "
                f"run at {', '.join(map(str, sizes))}; choose one of these or a smaller group_size"
            )


def tensor_parallel_sizes(
    layers: Mapping[str, str],
    stored: Mapping[str, StoredLinear],
    preset: Preset,
    recipe: QuantRecipe,
) -> tuple[int, ...]:
    """Of 1, 2, 4 and 8 ranks, those at which every quantized linear keeps its blocks whole."""
    return tuple(
        size
        for size in _SIZES
        if not any(
            _cut(name, stored[name], preset, _block(recipe, scheme), size)
            for name, scheme in layers.items()
        )
    )


def _cut(name: str, linear: StoredLinear, preset: Preset, block: int, size: int) -> str | None:
    outputs, inputs = linear.shape
    if size < 1:
        return f"cannot be split among {size} ranks"
    if name.endswith(preset.row_parallel):
        if inputs % size or (inputs // size) % (block or _FP8_TILE):
            return (
                f"gives each rank {inputs}/{size} inputs, which is no multiple of "
                f"{block or _FP8_TILE}"
            )
    elif outputs % size or (outputs // size) % _FP8_TILE:
        return f"gives each rank {outputs}/{size} outputs, which is no multiple of {_FP8_TILE}"
    return None


def _block(recipe: QuantRecipe, scheme: str) -> int:
    if scheme in INTEGER:
        return recipe.group_size or 128
    return recipe.block if scheme == MIXED else SCHEMES[scheme].block


def _fitting(inputs: int) -> str:
    return ", ".join(str(size) for size in (32, 64, 128) if inputs % size == 0) or "none"


def _examples(names: Iterable[str]) -> list[str]:
    """The names of the first block."""
    return [name for name in names if ".0." in name][:12]
