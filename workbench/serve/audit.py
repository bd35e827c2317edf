"""The verdict on precision: facts of the loaded modules against what was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from workbench.audits import Audit, LayerCensus, Verdict
from workbench.errors import PrecisionNotApplied
from workbench.serve.expected import Expected
from workbench.serve.kernel_kinds import Kind, kernel_kind
from workbench.specs import LaunchSpec

SIXTEEN_BIT = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
_TOKENS = ("NVFP4", "MXFP8", "MXFP4", "FP8", "INT8")  # in class names, the longer ones first
_SAME = {"FP8_PER_CHANNEL_PER_TOKEN": "FP8"}
"""Schemes that differ in their scales alone, not in what the modules are."""
_EIGHT_BIT = " with 8-bit activations"


def audit(spec: LaunchSpec, expected: Mapping[str, Expected], census: dict[str, Any]) -> Audit:
    """Judge a launch by its loaded modules.

    Args:
        spec: What was asked for.
        expected: What each layer should be, from :func:`workbench.serve.expected.expectations`.
        census: Facts from :meth:`workbench.serve.tracing.WorkerTools.workbench_census`.

    Raises:
        PrecisionNotApplied: no module runs at the precision asked for, or some run at another.
    """
    asked = _asked(spec)
    layers = tuple(_layer(fact, expected.get(fact["name"]), asked) for fact in census["linears"])
    missing = _missing(layers, expected, spec)
    result = Audit(
        requested=spec.precision,
        verdict=_verdict(spec, layers, expected, missing),
        layers=layers,
        platform=census["platform"],
        attention_backend=census["attention_backend"],
        world_sizes=census["world_sizes"],
        weight_bytes=census["weight_bytes"],
        missing=missing,
    )
    if result.verdict == "not applied":
        raise PrecisionNotApplied(refusal(result))
    return result


def found_scheme(fact: Mapping[str, Any]) -> str:
    """What a module runs in, by its loaded dtype, its bits a weight and the names of its classes.

    Args:
        fact: weight_dtype, packed_bytes (of the weight alone), parameters, method, kernel.
    """
    dtype = fact["weight_dtype"]
    if dtype in SIXTEEN_BIT:
        return SIXTEEN_BIT[dtype]
    if dtype == "int8":
        return "INT8"
    names = f"{fact['method']} {fact['kernel']}".upper().replace("_", "")
    token = next((one for one in _TOKENS if one in names), None)
    if token is not None or dtype == "float8_e4m3fn":
        return token or "FP8"
    bits = 8 * fact["packed_bytes"] / max(fact["parameters"], 1)
    return "W8A16" if bits > 6 else "W4A16"  # padding may add some


def agrees(scheme: str, found: str) -> bool:
    """Whether a scheme of the files is what a module runs in."""
    return _SAME.get(scheme, scheme) == found


def refusal(result: Audit, why: str = "") -> str:
    """The message of a launch whose layers are not what was asked for."""
    found: dict[str, int] = {}
    for layer in result.layers:
        label = f"{layer.weight_dtype} in {layer.kernel}"
        found[label] = found.get(label, 0) + 1
    held = ", ".join(f"{count} x {label}" for label, count in found.items()) or "no linear at all"
    return (
        f"{result.requested} was asked for and is not what runs: the transformer's linears are "
        f"{held}{why}. Look at the checkpoint's quantization_config and at the engine's log; "
        "nothing was generated."
    )


def _layer(fact: dict[str, Any], expected: Expected | None, asked: bool) -> LayerCensus:
    found = found_scheme(fact)
    fact = {name: value for name, value in fact.items() if name != "packed_bytes"}
    if fact.pop("activations_8bit"):
        fact["kernel"] += _EIGHT_BIT
    granularity = fact.pop("inputs")
    quantized = fact["weight_dtype"] not in SIXTEEN_BIT
    reason, by_design = _why_16_bit(expected) if asked and not quantized else ("", True)
    return LayerCensus(
        **fact,
        quantized=quantized,
        scheme=expected.scheme if expected else "",
        found=found,
        file_dtype=expected.file_dtype if expected else "",
        kind=_kind(fact),
        activations=granularity if quantized else "16-bit",
        reason=reason,
        by_design=by_design,
    )


def _asked(spec: LaunchSpec) -> bool:
    """Whether anything but 16 bit was asked for."""
    return any(one is not None for one in (spec.quantization, spec.recipe, spec.stored))


def _kind(fact: Mapping[str, Any]) -> Kind:
    return "reference" if fact["reference_kernel"] else kernel_kind(fact["kernel"])


def _why_16_bit(expected: Expected | None) -> tuple[str, bool]:
    """Why a layer runs in 16 bit, and whether that is by design."""
    if expected is None:
        return "no linear of the files has this name", True
    if not expected.quantized:
        return expected.kept or "16 bit in the checkpoint", True
    if expected.kept is not None:
        return f"dequantized at load: {expected.kept}", True
    return f"not quantized, although {expected.scheme} covers it", False


def _missing(
    layers: Iterable[LayerCensus], expected: Mapping[str, Expected], spec: LaunchSpec
) -> tuple[str, ...]:
    if spec.quantization is not None:
        return ()
    loaded = {layer.name for layer in layers}
    return tuple(name for name, one in expected.items() if one.quantized and name not in loaded)


def _verdict(
    spec: LaunchSpec,
    layers: tuple[LayerCensus, ...],
    expected: Mapping[str, Expected],
    missing: tuple[str, ...],
) -> Verdict:
    quantized = [layer for layer in layers if layer.quantized]
    if not _asked(spec):
        return "not applied" if quantized else "as requested"
    if not quantized or any(_is_other(layer) for layer in quantized):
        return "not applied"
    if missing or any(not layer.scheme for layer in quantized):
        return "partly"
    kept = [layer for layer in layers if not layer.quantized]
    if {layer.component for layer in kept} - {layer.component for layer in quantized}:
        return "partly"  # a whole transformer, even where its files say so
    if spec.quantization is None:
        return "partly" if any(not layer.by_design for layer in kept) else "as requested"
    return "partly" if any(_inside(layer, expected) for layer in kept) else "as requested"


def _is_other(layer: LayerCensus) -> bool:
    """Whether a quantized layer runs in something else than it should."""
    known = bool(layer.scheme)
    return _EIGHT_BIT in layer.kernel or (known and not agrees(layer.scheme, layer.found))


def _inside(layer: LayerCensus, expected: Mapping[str, Expected]) -> bool:
    return layer.name in expected and expected[layer.name].inside
