"""What this machine can run, at which precision, by which kernel, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.provenance import gpus, provenance
from workbench.schemes import INTEGER, SCHEMES
from workbench.serve.checkpoint_guards import LEAST_CAPABILITY, NATIVE_CAPABILITY
from workbench.serve.guards import FP8_CAPABILITY, INT8_CAPABILITY

if TYPE_CHECKING:
    import pandas as pd

Row = tuple[str, bool, str, str, str]
Capability = tuple[int, int]
COLUMNS = ["precision", "runs", "kernel", "kind", "reason"]
_ON_GPU = {
    "W4A16": "Machete or Marlin",
    "W8A16": "Machete or Marlin",
    "FP8": "Cutlass or FlashInfer W8A8, one calibrated input scale",
    "FP8_PER_CHANNEL_PER_TOKEN": "Cutlass W8A8, per-token dynamic activations",
    "NVFP4": "FlashInfer or Cutlass W4A4",
    "MXFP8": "FlashInfer W8A8",
    "MXFP4": "FlashInfer W4A4",
}
_ON_CPU = {
    "W4A16": "ReferenceWNA16",
    "W8A16": "ReferenceWNA16",
    "FP8": "ReferenceFp8",
    "FP8_PER_CHANNEL_PER_TOKEN": "ReferenceFp8",
    "NVFP4": "ReferenceNvFp4",
    "MXFP8": "ReferenceMxfp8",
    "MXFP4": "ReferenceMxFp4",
}
_NO_ARITHMETIC = "CPUs have no arithmetic for it: packed storage, the product in float32; slow"


def capabilities() -> pd.DataFrame:
    """One row a precision: online FP8 and INT8, then every scheme of a checkpoint.

    Returns:
        precision; runs; kernel (the expected one; :attr:`Engine.audit` names what really runs);
        kind (``native``, ``weight-only``: packed weights and 16-bit products, ``reference``: right
        numerics and no speed, ``none``); reason.
    """
    import pandas as pd

    devices = gpus()
    rows = (
        _on_gpu(devices[0]["name"], tuple(devices[0]["compute_capability"]))
        if devices
        else _on_cpu()
    )
    return pd.DataFrame(rows, columns=COLUMNS)


def _on_gpu(name: str, capability: Capability) -> list[Row]:
    def row(precision: str, least: Capability, kernel: str, kind: str = "native") -> Row:
        runs = capability >= least
        verb = "has" if runs else "is below"
        reason = f"{name} {verb} compute capability {_number(least)}"
        return precision, runs, *((kernel, kind) if runs else ("none", "none")), reason

    def scheme(one: str) -> Row:
        native = NATIVE_CAPABILITY.get(one, LEAST_CAPABILITY[one])
        if one in INTEGER:
            return row(SCHEMES[one].label, LEAST_CAPABILITY[one], _ON_GPU[one], "weight-only")
        if capability >= native:
            return row(SCHEMES[one].label, native, _ON_GPU[one])
        label, runs, kernel, kind, reason = row(
            SCHEMES[one].label, LEAST_CAPABILITY[one], "Marlin", "weight-only"
        )
        if runs and one in NATIVE_CAPABILITY:
            reason += (
                f", but its own arithmetic needs {_number(native)}: the weight stays packed, "
                "products and activations are 16 bit; no faster than BF16 where memory is not "
                "the limit"
            )
        return label, runs, kernel, kind, reason

    per_token = "Cutlass W8A8, per-token dynamic activations"
    return [
        row("BF16", (8, 0), "cuBLAS"),
        row("FP8", FP8_CAPABILITY, per_token),
        row("INT8", INT8_CAPABILITY, per_token),
        *(scheme(one) for one in SCHEMES),
    ]


def _number(capability: Capability) -> str:
    return ".".join(map(str, capability))


def _on_cpu() -> list[Row]:
    cpu = provenance()["cpu"]
    known = set(cpu["instructions"])
    native = known & {"avx512_bf16", "amx_bf16"}
    here = f"instructions here: {', '.join(sorted(known)) or 'none'}"
    return [
        (
            "BF16",
            True,
            "oneDNN",
            "native",
            f"{cpu['name']}: {'native' if native else 'emulated'} bfloat16",
        ),
        ("FP8", True, "ReferenceFp8", "reference", _NO_ARITHMETIC),
        _int8(known, here),
        *(_scheme_on_cpu(one, known, here) for one in SCHEMES),
    ]


def _int8(known: set[str], here: str) -> Row:
    if "amx_int8" in known or "avx512_vnni" in known:
        kernel = "AMX" if "amx_int8" in known else "oneDNN"
        return "INT8", True, kernel, "native", f"vLLM's kernel; {here}"
    why = f"without VNNI oneDNN's sums of INT8 products saturate; {here}"
    return "INT8", True, "ReferenceInt8", "reference", why


def _scheme_on_cpu(scheme: str, known: set[str], here: str) -> Row:
    label = SCHEMES[scheme].label
    if scheme == "W4A16" and "avx512f" in known:
        return label, True, "CPUWNA16", "weight-only", "vLLM's kernel, 4 bits only"
    if scheme in INTEGER:
        why = f"vLLM's kernel is built for 4 bits on AVX512; {here}"
        return label, True, _ON_CPU[scheme], "reference", why
    return label, True, _ON_CPU[scheme], "reference", _NO_ARITHMETIC
