"""Proof by values: do the loaded layers multiply the weights that their source holds?

Dtypes and kernel names cannot tell whether scales were lost or crossed on the way in. So some
linears of every kind are read back through their kernels (:mod:`workbench.serve.readback`) and
compared with the 16-bit model that they were made from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from workbench.audits import Audit, LayerCensus
from workbench.errors import PrecisionNotApplied
from workbench.schemes import INTEGER, SCHEMES, SIXTEEN_BIT
from workbench.serve.expected import Expected
from workbench.serve.source import Source

A_KIND = 3  # layers of each kind and scheme: first, middle, last
ONLINE_ERRORS = {"INT8": (0.002, 0.06)}  # one scale a row
ROUNDED = (0.0, 0.006)  # 16 bit: bfloat16 keeps 8 bits, and products are rounded to it once more
MARGINS = (0.25, 1.5)  # a sample is not the whole, nor a layer the average one
WORSE = 2.0  # times the error of the file: fused FP8 layers are rounded again, to one scale
FP8_ENTRY = 224.0  # in units of the input scale; E4M3 holds it exactly, half of its largest
FP4_ENTRY = 6.0 * 64.0  # 6 is E2M1's largest; 64 is a block scale that E4M3 holds exactly
SAME_SCALE = 1e-3
READ = ("weight", "qweight", "weight_packed", "scales", "weight_scale", "weight_scale_2")
_ENTRY = {"FP8": FP8_ENTRY, "NVFP4": FP4_ENTRY}
_SIGN = -1.0
"""oneDNN shifts INT8 inputs up by 128; without VNNI its sums of two positive ones saturate."""


def samples(
    layers: Iterable[LayerCensus], expected: Mapping[str, Expected], source: Source
) -> list[dict[str, Any]]:
    """What to read back: some layers of each kind and scheme, spread over the depth.

    Args:
        layers: The census.
        expected: What the files say of each layer.
        source: Where the original weights are.
    """
    kinds: dict[tuple[str, str], list[LayerCensus]] = {}
    for layer in layers:
        if layer.name in expected:
            kind = re.sub(r"\.\d+(?=\.|$)", ".*", layer.name)
            kinds.setdefault((kind, f"{layer.scheme} {layer.found}"), []).append(layer)
    chosen = [layer for group in kinds.values() for layer in _spread(group)]
    return [_sample(layer, expected[layer.name], source) for layer in chosen]


def proved(
    audit: Audit,
    asked: Sequence[Mapping[str, Any]],
    answers: Sequence[Mapping[str, Any]],
    source: Source,
) -> Audit:
    """The audit with what was read back.

    Args:
        audit: From :func:`workbench.serve.audit.audit`.
        asked: From :func:`samples`.
        answers: From the worker, one each.
        source: What they were compared with.

    Raises:
        PrecisionNotApplied: a layer multiplies other weights than its source's, or inputs in
            another format than its kernel's; names the layer.
    """
    layers = {layer.name: layer for layer in audit.layers}
    read = {
        sample["name"]: {**answer, "inputs": _told_apart(layers[sample["name"]], answer["inputs"])}
        for sample, answer in zip(asked, answers, strict=True)
        if "failed" not in answer
    }
    for sample in asked:
        if sample["name"] in read:
            _judge(audit.requested, layers[sample["name"]], sample, read[sample["name"]])
    inputs = {_sort(layers[name]): answer["inputs"] for name, answer in read.items()}
    failed = [
        f"{sample['name']} ({answer['failed']})"
        for sample, answer in zip(asked, answers, strict=True)
        if "failed" in answer
    ]
    return replace(
        audit,
        layers=tuple(
            replace(
                layer,
                weight_error=read.get(layer.name, {}).get("error"),
                activations=_activations(layer, inputs.get(_sort(layer), "")),
            )
            for layer in audit.layers
        ),
        proved=_summary(read, layers, source, failed),
    )


def _spread(group: list[LayerCensus]) -> list[LayerCensus]:
    count = A_KIND if group[0].quantized else 1
    last = len(group) - 1
    return [group[i] for i in sorted({round(last * n / max(count - 1, 1)) for n in range(count)})]


def _sample(layer: LayerCensus, one: Expected, source: Source) -> dict[str, Any]:
    component = layer.name.partition(".")[0]
    names = [member.name for member in one.members]
    found = [source.linear(component, name) for name in names]
    members = [
        {
            "part": linear.name,
            "shape": linear.shape,
            "scheme": linear.scheme,
            "files": {
                part: str(facts.file) for part, facts in linear.tensors.items() if part in READ
            },
        }
        for linear in found
        if linear is not None
    ]
    errors = [source.errors[component, one] for one in names if (component, one) in source.errors]
    fixed = max(source.input_scales.get((component, name), 0.0) for name in names)
    return {
        "name": layer.name,
        "members": members if len(members) == len(names) else [],
        "scale": _SIGN * (fixed * _ENTRY[layer.found] if fixed and layer.found in _ENTRY else 1),
        "fixed_scale": fixed,
        "recorded": max(errors) if errors else None,
        "own": source.own,
    }


def _judge(
    requested: str, layer: LayerCensus, sample: Mapping[str, Any], answer: Mapping[str, Any]
) -> None:
    problem = (
        _wrong_weight(layer, sample, answer)
        or _wrong_scale(sample, answer)
        or _wrong_inputs(layer, answer)
    )
    if problem:
        raise PrecisionNotApplied(
            f"{requested} was asked for, and {layer.name}, {layer.weight_dtype} in {layer.kernel}, "
            f"{problem}. Lint the checkpoint and make it again; nothing was generated."
        )


def _wrong_weight(
    layer: LayerCensus, sample: Mapping[str, Any], answer: Mapping[str, Any]
) -> str | None:
    low, high = _own_band(layer, sample) if sample["own"] else _band(layer)
    known = sample["recorded"]
    most = high * MARGINS[1] if known is None else min(high * MARGINS[1], known * WORSE)
    for part, error in answer.get("errors", {}).items():
        if error is not None and error > most:
            usual = f"{layer.scheme} gives {low:g} to {high:g}"
            return (
                f"differs from its source by {error:.3g} in the {part}, where "
                f"{usual if known is None else f'its file differs by {known:.3g}'}: "
                "scales lost or crossed?"
            )
    error = answer.get("error")
    if layer.quantized and error is not None and error < low * MARGINS[0]:
        return (
            f"differs from its source by {error:.3g} only, where {layer.scheme} gives {low:g} to "
            f"{high:g}: it is not quantized"
        )
    return None


def _wrong_scale(sample: Mapping[str, Any], answer: Mapping[str, Any]) -> str | None:
    wanted, found = sample["fixed_scale"], answer["input_scale"]
    if wanted and found is not None and abs(found - wanted) > SAME_SCALE * wanted:
        return f"scales its inputs by {found:.4g}, where the file says {wanted:.4g}"
    return None


def _told_apart(layer: LayerCensus, inputs: str) -> str:
    """INT8 and 16 bit round the probe alike but for a BF16 rounding error: the method decides."""
    if inputs in ("16-bit", "INT8"):
        return "INT8" if layer.found == "INT8" else "16-bit"
    return inputs


def _wrong_inputs(layer: LayerCensus, answer: Mapping[str, Any]) -> str | None:
    allowed = {"16-bit"} if layer.found in INTEGER or not layer.quantized else {layer.found}
    if layer.kind in ("weight-only", "emulated"):
        allowed.add("16-bit")
    if answer["inputs"] and answer["inputs"] not in allowed:
        return f"rounds its inputs to {answer['inputs']}, which {layer.scheme} does not"
    return None


def _band(layer: LayerCensus) -> tuple[float, float]:
    """Errors of a weight in the layer's scheme that nobody need worry about."""
    if layer.scheme in ONLINE_ERRORS:
        return ONLINE_ERRORS[layer.scheme]
    parts = [SCHEMES[part].error for part in layer.scheme.split("+") if part in SCHEMES]
    if not parts:
        return ROUNDED
    low = 0.0 if any(part in SIXTEEN_BIT for part in layer.scheme.split("+")) else min(parts)[0]
    return low, max(high for _, high in parts)


def _own_band(layer: LayerCensus, sample: Mapping[str, Any]) -> tuple[float, float]:
    """The same against the checkpoint's own values: vLLM rounds fused FP8 again, to one scale."""
    again = layer.scheme == "FP8" and len(sample["members"]) > 1
    return 0.0, SCHEMES["FP8"].error[1] if again else ROUNDED[1]


def _sort(layer: LayerCensus) -> tuple[str, str, str]:
    return layer.found, layer.method, layer.kernel


def _activations(layer: LayerCensus, measured: str) -> str:
    if not layer.quantized or measured == "16-bit":
        return "16-bit"
    joint = " " if layer.activations.startswith("per") else ", " if layer.activations else ""
    return f"{measured or 'not measured'}{joint}{layer.activations}"


def _summary(
    read: Mapping[str, Mapping[str, Any]],
    layers: Mapping[str, LayerCensus],
    source: Source,
    failed: list[str],
) -> str:
    groups: dict[str, list[float]] = {}
    for name, answer in read.items():
        if answer.get("error") is not None:
            found = layers[name].scheme if layers[name].quantized else "16 bit"
            groups.setdefault(found, []).append(answer["error"])
    shown = [
        f"{len(errors)} in {scheme} differ by {min(errors):.2g} to {max(errors):.2g}"
        if max(errors) > 0
        else f"{len(errors)} in {scheme} are exact"
        for scheme, errors in groups.items()
    ]
    unread = f"could not be read back: {', '.join(failed)}" if failed else ""
    if not shown:
        return "; ".join(filter(None, [f"weights not proved: {source.why}", unread]))
    against = f"{source.name} ({source.why})" if source.why else source.name
    return "; ".join(
        filter(None, [f"weights read back against {against}: {', '.join(shown)}", unread])
    )
