"""Quantize, load by metadata alone in vLLM-Omni, compare: each layer, and a forward of the whole.

Every layer's product is held against numpy: the weight as the file means it, inputs rounded by the
format's definition. The whole transformer is held against itself at 16 bit, on inputs of a real
prompt; bounds are what each format costs on random weights, so half or twice of it is a fault.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from formats_by_definition import (
    quantized_fp8,
    quantized_mxfp4,
    quantized_mxfp8,
    quantized_nvfp4,
)
from loading import Calls, first_calls, relative, velocities, worker_of
from safetensors import safe_open

import workbench as wb
from workbench.quant.packing import dequantize
from workbench.recipes import Calibration, QuantRecipe
from workbench.zoo.inventory import StoredLinear, linears
from workbench.zoo.names import canonical, file_names
from workbench.zoo.presets import Preset, preset_of

CALIBRATION = Calibration(prompts=("a teapot on a table", "a red car"), num_inference_steps=2)
CALIBRATED = ("FP8", "NVFP4", "MIXED")
MIX = {"qwen-image": "attn", "flux": "attn", "wan": "attn1"}
# Relative L2 of the velocity against 16 bit, low and high; measured on random weights.
BANDS = {
    "FP8": (0.01, 0.06),
    "FP8_PER_CHANNEL_PER_TOKEN": (0.01, 0.05),
    "NVFP4": (0.04, 0.18),
    "MXFP8": (0.01, 0.05),
    "MIXED": (0.02, 0.12),
    "MXFP4": (0.05, 0.3),
    "W4A16": (0.05, 0.35),
    "W8A16": (0.003, 0.03),
}
LAYER = 0.004  # of one product: rounding of the result to BF16, and ties of inputs
EVERY = ("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "NVFP4", "MXFP8", "MIXED", "W4A16", "W8A16")
QUICK = {
    ("qwen-image", "modelopt", "MIXED"), ("qwen-image", "auto-round", "W4A16"),
    ("wan", "modelopt", "FP8"),
}  # fmt: skip
"""What runs each time; the others are marked slow."""
_CASES = [
    *(("qwen-image", "modelopt", scheme) for scheme in EVERY[:5]),
    *(("qwen-image", "auto-round", scheme) for scheme in EVERY[5:]),
    *(("wan", "auto-round", scheme) for scheme in ("MXFP8", "MXFP4", "W4A16")),
    *(("wan", "modelopt", scheme) for scheme in ("FP8", "NVFP4", "MIXED")),
    *(("flux", "modelopt", scheme) for scheme in ("FP8", "NVFP4", "MIXED")),
    ("flux", "auto-round", "W4A16"),
]
CASES = [pytest.param(*c, marks=[] if c in QUICK else [pytest.mark.slow]) for c in _CASES]


@pytest.fixture(scope="module")
def sources(tiny_qwen: Path, tiny_flux: Path, tiny_wan: Path) -> dict[str, Path]:
    return {"qwen-image": tiny_qwen, "flux": tiny_flux, "wan": tiny_wan}


@pytest.fixture(scope="module")
def exact(sources: dict[str, Path]) -> Callable[[str], tuple[Calls, dict[str, torch.Tensor]]]:
    """Family -> real inputs, and what the engine predicts from them at 16 bit; like diffusers."""
    kept: dict[str, tuple[Calls, dict[str, torch.Tensor]]] = {}

    def found(family: str) -> tuple[Calls, dict[str, torch.Tensor]]:
        if family not in kept:
            import diffusers

            pipeline = diffusers.DiffusionPipeline.from_pretrained(
                sources[family], torch_dtype=torch.bfloat16
            )
            calls, plain = first_calls(pipeline)
            with worker_of(sources[family]) as worker:
                kept[family] = calls, velocities(worker, calls)
            for name, wanted in plain.items():
                assert relative(kept[family][1][name], wanted) < 0.015
        return kept[family]

    return found


@pytest.mark.parametrize(("family", "method", "scheme"), CASES)
def test_a_checkpoint_computes_what_its_files_mean(
    family: str,
    method: str,
    scheme: str,
    sources: dict[str, Path],
    exact: Callable[[str], tuple[Calls, dict[str, torch.Tensor]]],
    runs: Path,
) -> None:
    rules = {"layer_schemes": {MIX[family]: "FP8"}} if scheme == "MIXED" else {}
    calibration = CALIBRATION if scheme in CALIBRATED else None
    recipe = QuantRecipe(method=method, scheme=scheme, calibration=calibration, **rules)
    checkpoint = wb.quantize(str(sources[family]), recipe)
    calls, wanted = exact(family)
    with worker_of(checkpoint.path) as worker:
        for component in calls:
            check_layers(worker, checkpoint.path / component, preset_of(family))
        result = velocities(worker, calls)
    low, high = BANDS[scheme]
    for component, velocity in result.items():
        assert low < relative(velocity, wanted[component]) < high, component
    del worker
    gc.collect()


def check_layers(worker: Any, folder: Path, preset: Preset) -> None:
    """Every quantized linear of the files is in a layer that computes it, each half of it."""
    from vllm.model_executor.layers.linear import LinearBase

    stored = linears(folder)
    left = {name for name, linear in stored.items() if linear.quantized}
    transformer = getattr(worker.model_runner.pipeline, folder.name)
    for name, module in transformer.named_modules():
        members = file_names(preset, name, sorted(left)) if isinstance(module, LinearBase) else ()
        if members:
            left -= set(members)
            check_layer(module, [stored[member] for member in _ordered(preset, members)])
    assert not left, "quantized in the files, in no layer of the engine"


def _ordered(preset: Preset, members: tuple[str, ...]) -> list[str]:
    """q, k, v, as the engine lays them out."""
    parts = [part for group in preset.fused for part in group.parts]
    last = {name: canonical(preset, name).rpartition(".")[2] for name in members}
    return sorted(members, key=lambda name: parts.index(last[name]) if len(members) > 1 else 0)


def check_layer(module: Any, members: list[StoredLinear]) -> None:
    read = [_tensors(linear) for linear in members]
    weight = torch.cat(
        [dequantize(parts, linear.scheme) for parts, linear in zip(read, members, strict=True)]
    )
    torch.manual_seed(0)
    x = (torch.randn(2, 3, weight.shape[1]) * 0.5).bfloat16()
    inputs = rounded(members[0].scheme, x.float().numpy(), read).astype(float)
    wanted = inputs @ weight.double().numpy().T
    with torch.inference_mode():
        result = module.quant_method.apply(module, x, None).double().numpy()
    for half in np.array_split(np.arange(wanted.shape[-1]), 2 * len(members)):
        error = np.linalg.norm(result[..., half] - wanted[..., half])
        assert error / np.linalg.norm(wanted[..., half]) < LAYER, (members[0].name, half[[0, -1]])


def rounded(scheme: str, x: np.ndarray, read: list[dict[str, torch.Tensor]]) -> np.ndarray:
    """Inputs as the scheme sees them; a fused layer takes its members' largest scale."""
    if scheme in ("W4A16", "W8A16"):
        return x
    if scheme == "FP8_PER_CHANNEL_PER_TOKEN":
        return quantized_fp8(x, axis=-1)
    if scheme in ("MXFP8", "MXFP4"):
        return {"MXFP8": quantized_mxfp8, "MXFP4": quantized_mxfp4}[scheme](x)
    scale = np.float32(max(float(parts["input_scale"]) for parts in read))
    return quantized_fp8(x, scale) if scheme == "FP8" else quantized_nvfp4(x, scale)


def _tensors(linear: StoredLinear) -> dict[str, torch.Tensor]:
    found = {}
    for part, facts in linear.tensors.items():
        with safe_open(facts.file, framework="pt") as file:
            found[part] = file.get_tensor(f"{linear.name}.{part}")
    return found
