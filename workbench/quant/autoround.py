"""The module that runs AutoRound. https://github.com/intel/auto-round, release 0.16.1."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workbench.errors import QuantizationFailed
from workbench.quant.autoround_config import KEPT, entry, write_config
from workbench.quant.autoround_cures import cures
from workbench.quant.autoround_mixed import decide
from workbench.quant.autoround_prompts import Prompts, first_frames_drawn
from workbench.quant.autoround_weights import merge
from workbench.quant.calls import call_arguments, first_frames
from workbench.quant.dataset import warn_truncated
from workbench.quant.estimate import announce
from workbench.quant.isolation import forwarded, isolated
from workbench.quant.plan import Plan
from workbench.recipes import MIXES, Calibration, QuantRecipe
from workbench.schemes import MIXED
from workbench.torchvision_ops import define_missing
from workbench.wan_prompts import clean_alike

LOG = logging.getLogger(__name__)
_KEPT = {**KEPT, "act_bits": 16, "act_data_type": "float"}


def run(source: Path, output: Path, *, recipe: QuantRecipe, plan: Plan, trust: bool) -> Plan:
    """Quantize every transformer of a pipeline.

    Args:
        source: Pipeline in diffusers layout.
        output: Gets one folder a component: weights, and config.json with quantization_config.
        recipe: Round to nearest with ``iters=0``, else SignRound on the calibration prompts.
        plan: Which linears to pack, in which scheme, and which to keep.
        trust: Run code that the model folder brings along.

    Returns:
        The plan, with the schemes that a sensitivity chose.

    Raises:
        NotSupportedHere: it would take more memory than is free.
        QuantizationFailed: AutoRound raised, left prompts out, or packed something else.
    """
    announce(source, recipe, plan)
    if recipe.calibration is not None:
        warn_truncated(source, recipe.calibration.prompts)
    if recipe.effective_bits is not None:
        plan = decide(source, output, recipe=recipe, plan=plan, trust=trust)
    for number, components in enumerate(_alike(plan)):
        written = output / f".autoround-{number}"
        _quantize(source, written, recipe=recipe, plan=plan, like=components[0], trust=trust)
        for component in components:
            layers = plan.layers[component]
            merge(
                source / component,
                written / component,
                output / component,
                layers=layers,
                preset=plan.preset,
            )
            write_config(
                written / component,
                output / component,
                preset=plan.preset,
                layers=layers,
                kept=plan.kept[component],
                group_size=recipe.block,
            )
    return plan


def _alike(plan: Plan) -> list[list[str]]:
    """Components by equal decisions: AutoRound takes one set of layer names a run."""
    groups: list[list[str]] = []
    for component in plan.layers:
        for group in groups:
            if _decisions(plan, group[0]) == _decisions(plan, component):
                group.append(component)
                break
        else:
            groups.append([component])
    return groups


def _decisions(plan: Plan, component: str) -> tuple[dict[str, str], set[str]]:
    return plan.layers[component], set(plan.kept[component])


def _quantize(
    source: Path, output: Path, *, recipe: QuantRecipe, plan: Plan, like: str, trust: bool
) -> None:
    define_missing()
    import auto_round  # noqa: F401  installs its log handler, which is then replaced

    calibration = recipe.calibration if recipe.needs_data else None
    prompts = _prompts(source, calibration)
    clean_alike()
    with _surroundings(), first_frames_drawn(prompts):
        try:
            _run(source, output, _arguments(source, recipe, plan, like, prompts), trust)
        except KeyError as error:
            raise QuantizationFailed(
                f"AutoRound kept no inputs of {error} after {prompts.taken} calibration prompts: "
                f"one of {', '.join(plan.layers)} never ran within num_inference_steps="
                f"{calibration and calibration.num_inference_steps}; use more steps"
            ) from error
        except (Exception, SystemExit) as error:  # it leaves by sys.exit where it finds no data
            raise QuantizationFailed(
                f"AutoRound could not quantize {source.name} ({type(error).__name__}: {error}), "
                f"after starting {prompts.taken} calibration prompts; the logger {LOG.name!r} "
                "has its log"
            ) from error
    expected = len(prompts.prompts) * len(plan.quantized)
    if prompts.taken != expected:
        raise QuantizationFailed(
            f"AutoRound ran {prompts.taken} of {expected} calibration prompts; "
            f"the logger {LOG.name!r} has its log"
        )


def _prompts(source: Path, calibration: Calibration | None) -> Prompts:
    if calibration is None:
        return Prompts(())
    return Prompts(calibration.prompts, first_frames(source, calibration))


@contextmanager
def _surroundings() -> Iterator[None]:
    with isolated(), forwarded("autoround", LOG), forwarded("diffusers", LOG), cures():
        warnings.simplefilter("ignore")  # deprecations between AutoRound, diffusers and torch
        yield


def _run(source: Path, output: Path, arguments: dict[str, Any], trust: bool) -> None:
    from auto_round import AutoRound

    tuner = AutoRound(
        str(source),
        # Block by block from the shards; with a one-file component that mode finds no weights.
        low_cpu_mem_usage=any((source / "transformer").glob("*.index.json")),
        enable_torch_compile=False,  # minutes on a CPU, and different numbers from host to host
        batch_size=1,
        trust_remote_code=trust,
        **arguments,
    )
    tuner.quantize_and_save(output_dir=str(output), format="auto_round")


def _arguments(
    source: Path, recipe: QuantRecipe, plan: Plan, like: str, prompts: Prompts
) -> dict[str, Any]:
    base = MIXES[recipe.method][0] if recipe.scheme == MIXED else recipe.scheme
    rules = {
        name: entry(scheme, recipe.block)
        for name, scheme in plan.layers[like].items()
        if scheme != base
    }
    rules |= {name: dict(_KEPT) for name in plan.kept[like]}
    common = {
        "scheme": base,
        "iters": recipe.iters,
        "group_size": recipe.block,
        "sym": recipe.symmetric,
        "layer_config": rules or None,
    }
    if not recipe.needs_data:
        # Else AutoRound takes its "model-free" way, which packs layers outside the blocks as well.
        return {**common, "disable_opt_rtn": True, "disable_model_free": True}
    calibration, guidance = recipe.calibration, plan.family.guidance
    call = call_arguments(source, calibration, guidance)
    tuning = {"lr": recipe.lr, "not_use_best_mse": True} if recipe.iters else {}
    return {
        **common,
        **tuning,
        "disable_opt_rtn": recipe.disable_opt_rtn,
        "gradient_accumulate_steps": recipe.gradient_accumulate_steps,
        "dataset": prompts,
        "nsamples": len(prompts.prompts),
        "model_dtype": _model_dtype(),
        "calib_num_inference_steps": calibration.num_inference_steps,
        "guidance_scale": call.pop("guidance_scale", None),
        "seed": calibration.seed,
        "generator_seed": calibration.seed,
        "pipeline_call_kwargs": call,
    }


def _model_dtype() -> str | None:
    """float32 for the whole pipeline where AutoRound computes so, as on CPUs without bfloat16.

    It casts the transformer alone, which then refuses the text encoder's bfloat16.
    """
    import torch
    from auto_round.utils.device_manager import get_ar_device

    device = get_ar_device("cuda" if torch.cuda.is_available() else "cpu")
    return None if device.supports_bf16() else "float32"
