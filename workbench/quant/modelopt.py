"""The only module that imports ModelOpt. https://github.com/NVIDIA/Model-Optimizer, release 0.47.0.

ModelOpt calibrates the inputs and packs each weight. Its exporter for pipelines is not used: it
saves the other components again, and names layers as vLLM-Omni does not look them up
(:mod:`workbench.quant.modelopt_export` writes the files instead).
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import store
from workbench.engine_logs import quiet
from workbench.errors import QuantizationFailed
from workbench.quant.isolation import isolated
from workbench.quant.plan import Plan
from workbench.recipes import QuantRecipe
from workbench.torchvision_ops import define_missing

if TYPE_CHECKING:
    from torch import Tensor, nn

_FP8_INPUTS = {"num_bits": (4, 3), "axis": None}


def run(source: Path, output: Path, *, recipe: QuantRecipe, plan: Plan, trust: bool) -> Plan:
    """Quantize every transformer of a pipeline, calibrated on the recipe's prompts if it has any.

    Args:
        source: Pipeline in diffusers layout.
        output: Where one folder a component is written, and the tables of what was measured.
        recipe: The scheme, and the calibration that static schemes need.
        plan: Which linears to quantize, and in which scheme.
        trust: Run code that the model folder brings along.

    Returns:
        The plan, with the schemes that a sensitivity chose.

    Raises:
        QuantizationFailed: a calibration run failed, or never reached a layer.
    """
    from workbench.quant.modelopt_weights import write_component

    inputs: dict[str, dict[str, float]] = {}
    with isolated(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations between ModelOpt, diffusers and torch
        if recipe.calibration is not None:
            plan, inputs = _calibrated(source, output, recipe, plan, trust)
        for component, layers in plan.layers.items():
            write_component(
                source / component,
                output / component,
                layers,
                plan.preset,
                packers=packers(),
                inputs=inputs.get(component, {}),
            )
    return plan


def _calibrated(
    source: Path, output: Path, recipe: QuantRecipe, plan: Plan, trust: bool
) -> tuple[Plan, dict[str, dict[str, float]]]:
    import torch

    from workbench.quant.calibration import calibrate
    from workbench.quant.fakes import FAKES

    result = calibrate(source, recipe, plan, fakes=FAKES, observer=observe, trust=trust)
    gc.collect()  # the pipeline, which cycles of hooks keep
    torch.cuda.empty_cache()
    output.mkdir(parents=True, exist_ok=True)
    for name, table in result.tables.items():
        store.write_json(output / name, table)
    return result.plan, result.inputs


def observe(models: Mapping[str, nn.Module], plan: Plan, run: Callable[[], None]) -> Any:
    """Largest absolute input of each planned linear, by ModelOpt's max calibration.

    Args:
        models: Component -> transformer; its linears become ModelOpt's, which compute the same.
        plan: Names the linears to look at.
        run: Runs all calibration prompts through all of them.

    Returns:
        Component -> linear -> amax.

    Raises:
        QuantizationFailed: names the linears that no calibration run reached.
    """
    from torch import nn

    _import_modelopt()
    import modelopt.torch.quantization as mtq

    both = nn.ModuleDict(dict(models))  # one run calibrates all experts
    rules = [
        {"quantizer_name": "*", "enable": False},
        {
            "quantizer_name": "*input_quantizer",
            "parent_class": "nn.Linear",
            "cfg": _FP8_INPUTS,
            "enable": True,
        },
    ]
    with redirect_stdout(StringIO()):  # it prints how many quantizers it put in
        mtq.quantize(both, {"quant_cfg": rules, "algorithm": None})
    for component, model in models.items():
        for name, module in model.named_modules():
            if hasattr(module, "input_quantizer") and name not in plan.layers[component]:
                module.input_quantizer.disable()
    mtq.calibrate(both, "max", lambda _: run())
    found = {component: _amax(component, models[component], plan) for component in plan.layers}
    mtq.disable_quantizer(both, "*")
    return found


def _amax(component: str, model: nn.Module, plan: Plan) -> dict[str, float]:
    modules = dict(model.named_modules())
    found: dict[str, float] = {}
    for name in plan.layers[component]:
        quantizer = getattr(modules.get(name), "input_quantizer", None)
        if quantizer is None:
            raise QuantizationFailed(
                f"{component}.{name} is a two-dimensional weight of the file but no linear of "
                f"{type(model).__name__}; ignore=[{name!r}] keeps it in 16 bit"
            )
        amax = quantizer.export_amax()
        if amax is None:
            raise QuantizationFailed(
                f"no calibration run reached {component}.{name}, so nothing is known of its "
                f"inputs; give more prompts or steps, or ignore=[{name!r}]"
            )
        found[name] = float(amax)
    return found


def packers() -> dict[str, Callable[..., dict[str, Tensor]]]:
    """Scheme -> function of (float32 weight [out, in], its largest absolute value).

    Each returns the stored tensors by the last part of their names, all but ``input_scale``.
    """
    _import_modelopt()
    from modelopt.torch.quantization.qtensor import FP8QTensor, MXFP8QTensor, NVFP4QTensor

    def fp8(weight: Tensor, amax: Tensor) -> dict[str, Tensor]:
        scale = amax / 448
        packed, _ = FP8QTensor.quantize(weight, scales=scale[:, None] if scale.ndim else scale)
        return {"weight": packed._quantized_data, "weight_scale": scale}

    def nvfp4(weight: Tensor, amax: Tensor) -> dict[str, Tensor]:
        packed, blocks, whole = NVFP4QTensor.quantize(
            weight, 16, weights_scaling_factor_2=amax / (6 * 448)
        )
        return {
            "weight": packed._quantized_data,
            "weight_scale": blocks,
            "weight_scale_2": whole,
        }

    def mxfp8(weight: Tensor, amax: Tensor) -> dict[str, Tensor]:
        packed, scale = MXFP8QTensor.quantize(weight)
        return {"weight": packed._quantized_data, "weight_scale": scale}

    return {"FP8": fp8, "FP8_PER_CHANNEL_PER_TOKEN": fp8, "NVFP4": nvfp4, "MXFP8": mxfp8}


def _import_modelopt() -> None:
    define_missing()
    quiet()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of plugins that it can do without
        import modelopt.torch.quantization  # noqa: F401
