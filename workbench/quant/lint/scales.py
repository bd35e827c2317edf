"""Scales: their values, and whether those are there that the activation scheme needs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from workbench.quant.lint.findings import ERROR, NOTE, WARNING, Finding
from workbench.quant.lint.folder import Component
from workbench.quant.lint.needed import missing_scales
from workbench.quant.lint.numbers import Counts, count
from workbench.quant.lint.small import Raw, read_small
from workbench.schemes import SCHEMES
from workbench.zoo.inventory import StoredLinear

SCALES = (
    "weight_scale", "weight_scale_2", "weight_scale_inv", "input_scale", "scales",
    "weight_global_scale", "input_global_scale",
)  # fmt: skip
_SIGNED = ("scales",)  # AutoRound's symmetric scales carry the sign of the largest weight


def check_values(component: Component, budget: int) -> Iterator[Finding]:
    """NaN, infinite, zero and negative scales, counted."""
    names = [name for name in component.tensors if name.rpartition(".")[2] in SCALES]
    partial = 0
    for raw in read_small(component.tensors, names, budget):
        counts = count(raw.data, raw.facts.dtype)
        if counts is None:
            yield _finding(component, raw, ERROR, f"is {raw.facts.dtype}, which holds no scales")
            continue
        partial += not raw.whole
        yield from _values(component, raw, counts)
    if partial:
        yield Finding(
            NOTE, "scales-sampled", component.where, "",
            f"{partial} of {len(names)} scale tensors were read in parts only, to stay within "
            f"{budget} bytes; raise scale_bytes to read all",
        )  # fmt: skip


def _values(component: Component, raw: Raw, counts: Counts) -> Iterator[Finding]:
    part = raw.name.rpartition(".")[2]
    bad = {"NaN": counts.nan, "infinite": counts.infinite}
    if part not in _SIGNED:
        bad["negative"] = counts.negative
    if told := [f"{number} {kind}" for kind, number in bad.items() if number]:
        message = f"holds {', '.join(told)} of {counts.total} values; one is enough for garbage: "
        yield _finding(component, raw, ERROR, f"{message}quantize that layer again")
    if counts.zero and counts.zero == counts.total:
        message = "is zero throughout, so the layer is zero; quantize that layer again"
        yield _finding(component, raw, ERROR, message)
    elif counts.zero:
        message = (
            f"holds {counts.zero} zeros of {counts.total}: zero blocks are right only if "
            "the weights are zero there; compare with the source"
        )
        yield _finding(component, raw, WARNING, message)


def _finding(component: Component, raw: Raw, severity: str, message: str) -> Finding:
    return Finding(severity, "scale-values", component.file_of(raw.facts), raw.name, message)  # type: ignore[arg-type]


def check_presence(component: Component) -> Iterator[Finding]:
    """Scales that are missing, or that no engine reads."""
    for linear in component.linears.values():
        parts = linear.tensors
        file = component.file_of(next(iter(parts.values())))
        if "pre_quant_scale" in parts:
            yield Finding(
                ERROR, "pre-quant-scale", file, f"{linear.name}.pre_quant_scale",
                "vLLM-Omni refuses pre_quant_scale (AWQ, SVDQuant); fold it into the weights at "
                "export",
            )  # fmt: skip
        if not linear.quantized:
            yield from _beside_16_bit(linear, file)
        elif linear.scheme in SCHEMES:
            yield from _missing(component, linear, file)
            yield from _surplus(linear, file)


def _beside_16_bit(linear: StoredLinear, file: str) -> Iterator[Finding]:
    if found := [part for part in ("weight_scale", "weight_scale_2") if part in linear.tensors]:
        yield Finding(
            ERROR, "scale-beside-16-bit", file, f"{linear.name}.{found[0]}",
            f"lies beside a {linear.dtype} weight: the weight was not quantized, or the scale was "
            "left over; quantize the layer again, or drop the scale",
        )  # fmt: skip


def _missing(component: Component, linear: StoredLinear, file: str) -> Iterator[Finding]:
    for part in missing_scales(component, linear):
        why = "quantize the layer again"
        if part == "input_scale":
            why = "stock vLLM-Omni only warns, and computes garbage; calibrate, or export "
            why += "FP8_PER_CHANNEL_PER_TOKEN" if linear.scheme == "FP8" else "W4A16_NVFP4"
        message = f"is missing, and a {linear.scheme} linear needs it: {why}"
        yield Finding(ERROR, "scale-missing", file, f"{linear.name}.{part}", message)


def _surplus(linear: StoredLinear, file: str) -> Iterator[Finding]:
    if linear.scheme == "FP8_PER_CHANNEL_PER_TOKEN" and "input_scale" in linear.tensors:
        yield Finding(
            NOTE, "scale-surplus", file, f"{linear.name}.input_scale",
            "per-token activations need no stored scale; the engine drops it",
        )  # fmt: skip


def scalars(component: Component, part: str) -> dict[str, float]:
    """Value of the named one-element scale of every linear that has one, by linear."""
    from workbench.quant.lint.small import values

    names = [
        f"{linear.name}.{part}"
        for linear in component.linears.values()
        if part in linear.tensors and linear.tensors[part].parameters == 1
    ]
    read = read_small(component.tensors, names, len(names) * 8)
    found = {raw.name.rpartition(".")[0]: values(raw) for raw in read if raw.whole}
    return {name: float(v[0]) for name, v in found.items() if v.size and np.isfinite(v[0])}
