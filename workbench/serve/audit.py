"""The verdict on precision: facts of the loaded modules against what was asked for."""

from __future__ import annotations

from typing import Any

from workbench.audits import Audit, LayerCensus, Verdict
from workbench.errors import PrecisionNotApplied
from workbench.specs import LaunchSpec
from workbench.zoo.presets import AUTOROUND, ONLINE, kept_reason, preset_of

SIXTEEN_BIT = ("bfloat16", "float16", "float32")
BLOCKS = ("transformer_blocks.", "single_transformer_blocks.", "blocks.")
STORED = {"FP8": ("float8_e4m3fn",), "INT8": ("int8",), "W4A16": ("int32",)}
"""Dtypes in which each scheme holds its weights; W4A16 packs eight values into an int32."""


def audit(spec: LaunchSpec, family: str, census: dict[str, Any]) -> Audit:
    """Judge a launch by its loaded modules.

    Args:
        spec: What was asked for.
        family: Name of the model's family, for the layers that it keeps in 16 bit by design.
        census: Facts from :meth:`workbench.serve.tracing.WorkerTools.workbench_census`.

    Raises:
        PrecisionNotApplied: no module runs at the precision asked for, or some run at another.
    """
    layers = tuple(_layer(fact, family, spec.precision) for fact in census["linears"])
    verdict = _verdict(spec.precision, layers)
    result = Audit(
        requested=spec.precision,
        verdict=verdict,
        layers=layers,
        platform=census["platform"],
        attention_backend=census["attention_backend"],
        world_sizes=census["world_sizes"],
        weight_bytes=census["weight_bytes"],
    )
    if verdict == "not applied":
        raise PrecisionNotApplied(_refusal(result))
    return result


def _layer(fact: dict[str, Any], family: str, precision: str) -> LayerCensus:
    fact = dict(fact)
    if fact.pop("activations_8bit"):
        fact["kernel"] += " with 8-bit activations"
    quantized = fact["weight_dtype"] not in SIXTEEN_BIT
    if quantized or precision not in STORED:
        return LayerCensus(**fact, quantized=quantized)
    method = AUTOROUND if precision == "W4A16" else ONLINE
    why = kept_reason(preset_of(family), fact["name"].partition(".")[2], method)
    return LayerCensus(
        **fact,
        quantized=False,
        reason=why or f"not quantized, although {precision} covers it",
        by_design=why is not None,
    )


def _verdict(precision: str, layers: tuple[LayerCensus, ...]) -> Verdict:
    if precision not in STORED:
        return "not applied" if any(layer.quantized for layer in layers) else "as requested"
    quantized = [layer for layer in layers if layer.quantized]
    other = [layer for layer in quantized if not _is(precision, layer)]
    if not quantized or other:
        return "not applied"
    kept = [layer for layer in layers if not layer.quantized and _inside_blocks(layer)]
    return "partly" if kept else "as requested"


def _is(precision: str, layer: LayerCensus) -> bool:
    return layer.weight_dtype in STORED[precision] and "8-bit activations" not in layer.kernel


def _inside_blocks(layer: LayerCensus) -> bool:
    return layer.name.partition(".")[2].startswith(BLOCKS)


def _refusal(result: Audit) -> str:
    found: dict[str, int] = {}
    for layer in result.layers:
        label = f"{layer.weight_dtype} in {layer.kernel}"
        found[label] = found.get(label, 0) + 1
    held = ", ".join(f"{count} x {label}" for label, count in found.items()) or "no linear at all"
    return (
        f"{result.requested} was asked for and is not what runs: the transformer's linears are "
        f"{held}. Look at the checkpoint's quantization_config and at the engine's log; nothing "
        "was generated."
    )
