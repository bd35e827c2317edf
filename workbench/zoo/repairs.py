"""Faults of stock vLLM-Omni 0.30.0 with quantized layers, put right by our general plugin.

Data that the plugin and the linter share: a repair that is not named here is not promised.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One fault of the engine that needs no change of the checkpoint."""

    name: str
    stock: str
    """What the engine does by itself."""
    cure: str
    """What the plugin makes of it."""
    source: str
    """File and line below site-packages."""


MODELOPT = "modelopt-detection"
COMPRESSED_TENSORS = "compressed-tensors-detection"
MXFP8 = "modelopt-mxfp8"
FUSED_NAMES = "fused-names"
DROPPED_SCALES = "dropped-scales"
WHOLE_NAMES = "whole-names"
EVERY_EXPERT = "every-expert"
MISSING_SCALES = "missing-scales"
UNREAD_SCALES = "unread-scales"
BATCHED_FP8 = "batched-fp8"

_REPAIRS = (
    Repair(
        name=MODELOPT,
        stock="TypeError: Cannot instantiate ModelOptFp8Config with kwargs, as Wan builds a config "
        "for each expert without from_config",
        cure="the config is built by from_config, by its quant_algo",
        source="vllm_omni/quantization/factory.py:515",
    ),
    Repair(
        name=COMPRESSED_TENSORS,
        stock="ValueError: Unknown quantization method: 'compressed_tensors'",
        cure="the config is built by vLLM's own compressed-tensors reader",
        source="vllm_omni/quantization/factory.py:328",
    ),
    Repair(
        name=MXFP8,
        stock="TypeError: Cannot instantiate ModelOptFp8Config with kwargs",
        cure="quant_algo MXFP8, W4A16_NVFP4 and FP8_PB_WO go to the readers that vLLM has for them",
        source="vllm_omni/quantization/factory.py:262",
    ),
    Repair(
        name=FUSED_NAMES,
        stock="quantized_layers names the members, the engine asks for the fused layer and builds "
        "it in 16 bit",
        cure="a fused layer takes the scheme of its members",
        source="vllm/model_executor/layers/quantization/modelopt.py:1659",
    ),
    Repair(
        name=DROPPED_SCALES,
        stock="scales whose names differ at runtime are dropped with no more than a log line, and "
        "the layer computes garbage",
        cure="scales are renamed as the weights are",
        source="vllm_omni/diffusion/model_loader/checkpoint_adapters/modelopt.py:191",
    ),
    Repair(
        name=WHOLE_NAMES,
        stock="an entry of ignore means every layer whose name contains it",
        cure="it means whole names, of the file or the runtime, as ModelOpt since 0.39 writes them",
        source="vllm/model_executor/layers/quantization/modelopt.py:200",
    ),
    Repair(
        name=EVERY_EXPERT,
        stock="FP8 weights of layers in 16 bit are dequantized in the component transformer alone; "
        "elsewhere their bytes are taken without the scale",
        cure="every expert is dequantized alike",
        source="vllm_omni/diffusion/model_loader/checkpoint_adapters/modelopt.py:84",
    ),
    Repair(
        name=MISSING_SCALES,
        stock="a scale that no file holds is a log line, and the layer computes garbage",
        cure="it is an error that names the layer",
        source="vllm_omni/diffusion/model_loader/diffusers_loader.py:1126",
    ),
    Repair(
        name=UNREAD_SCALES,
        stock="stored FP8 without is_checkpoint_fp8_serialized in the entry is taken as 16-bit "
        "numbers, without its scales",
        cure="it is an error that says what the entry lacks",
        source="vllm_omni/quantization/factory.py:331",
    ),
    Repair(
        name=BATCHED_FP8,
        stock="RuntimeError: view size is not compatible, in FP8 with two pictures or more in a "
        "batch of a model whose joint attention is quantized",
        cure="an input that does not lie in one piece is copied first",
        source="vllm/model_executor/kernels/linear/scaled_mm/ScaledMMLinearKernel.py:155",
    ),
)
REPAIRS = {repair.name: repair for repair in _REPAIRS}
