"""What would fail hours later, refused from names and shapes alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from workbench.errors import SpecError
from workbench.quant.ranks import inputs_unit, outputs_unit, run_quantized
from workbench.recipes import KEEP, Calibration, QuantRecipe
from workbench.sampling import Sampling
from workbench.schemes import INTEGER
from workbench.zoo.families import family_of, image_input_of
from workbench.zoo.inventory import StoredLinear
from workbench.zoo.models import default_sampling
from workbench.zoo.names import fused_group, matches, nearest, siblings
from workbench.zoo.presets import Preset, inside_blocks, kept_reason
from workbench.zoo.sizes import drawable, second_problem

Stored = Mapping[str, StoredLinear]
_DRAWN = {"height", "width", "num_frames", "guidance_scale_2"}


def recipe_fits(recipe: QuantRecipe, preset: Preset, components: tuple[str, ...]) -> None:
    """Refuse what no layer of this family could run.

    Raises:
        SpecError: an asymmetric scheme, a family that is not quantized offline, a layer that the
            engine would build packed and the file not, too few steps.
    """
    if not preset.offline:
        raise SpecError(
            f"{preset.family} cannot be quantized into a checkpoint here: "
            f"{preset.ignored or preset.not_offline}; "
            + ("serve it in BF16" if preset.ignored else "serve it online, or in BF16")
        )
    if not recipe.symmetric:
        raise SpecError(
            "symmetric=False: vLLM 0.30 has no kernel for asymmetric 4-bit weights in this layout "
            "(vllm/.../inc/schemes/inc_wna16_scheme.py); use symmetric=True"
        )
    if preset.offered and (recipe.method, recipe.scheme) == ("auto-round", "MXFP8"):
        raise SpecError(
            f"AutoRound's MXFP8: vLLM-Omni 0.30 would build {preset.offered} of {preset.family} in "
            "it too, although AutoRound packs the blocks alone "
            "(vllm_omni/quantization/inc_config.py); use method='modelopt', scheme='MXFP8'"
        )
    steps = recipe.calibration.num_inference_steps if recipe.calibration else len(components)
    if steps < len(components):
        raise SpecError(
            f"num_inference_steps={steps}: each of {', '.join(components)} runs its own part of "
            f"the schedule, so calibration needs {len(components)} steps or more"
        )


def calibration_fits(calibration: Calibration, source: Path) -> None:
    """Refuse sizes, guidance and first frames that the model does not draw with.

    Args:
        calibration: The recipe's.
        source: Pipeline in diffusers layout.

    Raises:
        SpecError: frames of an image model, a size that would be cut, guidance of a second
            transformer where there is one alone, images of a model that begins with a prompt, none
            where each begins with one.
    """
    asked = calibration.model_dump(include=_DRAWN, exclude_none=True)
    served = {name: n for name, n in default_sampling(source).items() if name in _DRAWN}
    family, sampling = family_of(source), Sampling(**{**served, **asked})
    if problem := second_problem(source, family, sampling):
        raise SpecError(problem)
    drawable(source, family, sampling)
    _images_fit(calibration, source)


def _images_fit(calibration: Calibration, source: Path) -> None:
    takes, digests = image_input_of(source), calibration.image_sha256
    name = family_of(source).name
    if takes == "none" and digests:
        raise SpecError(
            f"Calibration(images=...): {source.name}, a {name} model, is calibrated with prompts "
            "alone; leave images out"
        )
    if digests and not calibration.images:
        raise SpecError(
            "of the images in this recipe only digests are kept; give Calibration(images=...) again"
        )
    if takes == "needed" and None in (digests or (None,)):
        raise SpecError(
            f"calibration of a {name} model begins each run with a first frame; give "
            "Calibration(images=...), a file for every prompt or one for all, or use a recipe that "
            "needs no calibration: method='auto-round' with iters=0, or method='modelopt' with a "
            "dynamic scheme such as MXFP8"
        )


def rules_match(recipe: QuantRecipe, preset: Preset, stored: Mapping[str, Stored]) -> None:
    """Refuse a rule that means no linear, and a scheme for linears that the engine never runs so.

    Args:
        recipe: Has the rules.
        preset: The family's.
        stored: Component -> its linears.

    Raises:
        SpecError: names the rule, and linears that there are.
    """
    for pattern in recipe.ignore:
        _meant(f"ignore={pattern!r}", pattern, preset, stored)
    for pattern, scheme in recipe.layer_schemes:
        rule = f"layer_schemes={pattern!r}"
        names = _meant(rule, pattern, preset, stored)
        reasons = [kept_reason(preset, name, recipe.method) for name in names]
        if scheme != KEEP and all(reasons) and not recipe.all_linears:
            raise SpecError(
                f"{rule} asks for {scheme} where vLLM-Omni runs 16 bit under {recipe.method} "
                f"({names[0]}: {reasons[0]}); drop the rule"
            )


def something_is_left(recipe: QuantRecipe, layers: Mapping[str, str], component: str) -> None:
    """Refuse a recipe that keeps every linear.

    Raises:
        SpecError: nothing is quantized.
    """
    if layers:
        return
    rules = [f"ignore={list(recipe.ignore)}"] if recipe.ignore else []
    rules += [f"layer_schemes={dict(recipe.layer_schemes)}"] if recipe.layer_schemes else []
    raise SpecError(
        f"nothing is left to quantize in the {component}: {' with '.join(rules) or 'the engine'} "
        "keeps every linear of its blocks; ignore less"
    )


def shapes_fit(
    layers: Mapping[str, str], stored: Stored, preset: Preset, recipe: QuantRecipe, component: str
) -> None:
    """Refuse blocks and tiles that do not divide a linear that the engine runs as stored.

    Raises:
        SpecError: names the linear, its shape, and what would fit.
    """
    for name, scheme in run_quantized(preset, layers, recipe.method).items():
        outputs, inputs = stored[name].shape
        block, tile = inputs_unit(recipe, scheme), outputs_unit(scheme)
        if inputs % block == 0 and outputs % tile == 0:
            continue
        shape = f"{component}.{name}, which has {inputs} inputs and {outputs} outputs"
        rescue = f"ignore={[*siblings(preset, name)]} keeps it in 16 bit"
        if scheme in INTEGER:
            raise SpecError(
                f"group_size={block} does not fit {shape}: inputs must be a multiple of group_size "
                f"and outputs of {tile}; take a smaller group_size of {_fitting(inputs)}, or "
                f"{rescue}"
            )
        raise SpecError(
            f"{scheme} does not fit {shape}: inputs must be a multiple of {block} and outputs "
            f"of {tile}; {rescue}"
        )


def fused_agree(
    preset: Preset, stored: Stored, layers: Mapping[str, str], recipe: QuantRecipe
) -> None:
    """Refuse more than one scheme within a layer that the engine loads as one.

    Raises:
        SpecError: names the members and their schemes.
    """
    for name in stored:
        group = fused_group(preset, name)
        if group is None or kept_reason(preset, name, recipe.method) is not None:
            continue
        members = {one: layers.get(one, KEEP) for one in siblings(preset, name) if one in stored}
        if len(set(members.values())) > 1:
            parts = ", ".join(f"{one.rpartition('.')[2]} {s}" for one, s in members.items())
            raise SpecError(
                f"{name.rpartition('.')[0]} would hold {parts}; vLLM-Omni loads "
                f"{', '.join(group.parts)} into one {group.runtime}: ignore all or none, and give "
                "all the same scheme"
            )


def _meant(
    rule: str, pattern: str, preset: Preset, stored: Mapping[str, Stored]
) -> tuple[str, ...]:
    """Every linear that a pattern means, in whatever component."""
    found = tuple(
        name
        for component, names in stored.items()
        for name in names
        if matches(preset, pattern, name, component)
    )
    if found:
        return found
    examples = list(dict.fromkeys(_examples(preset, stored.values())))
    close = nearest(preset, pattern, examples)
    hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    raise SpecError(
        f"{rule} matches no linear of the {' or '.join(stored)}; {hint}"
        f"its blocks have {', '.join(examples)}"
    )


def _fitting(inputs: int) -> str:
    return ", ".join(str(size) for size in (32, 64, 128) if inputs % size == 0) or "none"


def _examples(preset: Preset, components: Iterable[Stored]) -> Iterator[str]:
    """The names of the first block of each kind."""
    for stored in components:
        yield from (name for name in stored if ".0." in name and inside_blocks(preset, name))
