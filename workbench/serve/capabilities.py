"""What this machine can run, at which precision, by which kernel, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.provenance import gpus, provenance
from workbench.serve.guards import FP8_CAPABILITY, INT8_CAPABILITY

if TYPE_CHECKING:
    import pandas as pd

Row = tuple[str, bool, str, str]
W4A16_CAPABILITY = (7, 5)


def capabilities() -> pd.DataFrame:
    """One row a precision: precision, runs, kernel, reason.

    The kernel is the expected one; :attr:`Engine.audit` names the one that really runs.
    """
    import pandas as pd

    devices = gpus()
    rows = (
        _on_gpu(devices[0]["name"], tuple(devices[0]["compute_capability"]))
        if devices
        else _on_cpu()
    )
    return pd.DataFrame(rows, columns=["precision", "runs", "kernel", "reason"])


def _on_gpu(name: str, capability: tuple[int, int]) -> list[Row]:
    def row(precision: str, least: tuple[int, int], kernel: str) -> Row:
        runs = capability >= least
        verb = "has" if runs else "is below"
        reason = f"{name} {verb} compute capability {least[0]}.{least[1]}"
        return precision, runs, kernel if runs else "none", reason

    return [
        row("BF16", (8, 0), "cuBLAS"),
        row("FP8", FP8_CAPABILITY, "Cutlass W8A8, per-token dynamic activations"),
        row("INT8", INT8_CAPABILITY, "Cutlass W8A8, per-token dynamic activations"),
        row("W4A16", W4A16_CAPABILITY, "Machete or Marlin, from an AutoRound checkpoint"),
    ]


def _on_cpu() -> list[Row]:
    cpu = provenance()["cpu"]
    known = set(cpu["instructions"])
    native = known & {"avx512_bf16", "amx_bf16"}
    integer = "AMX" if "amx_int8" in known else "oneDNN"
    return [
        ("BF16", True, "oneDNN", f"{cpu['name']}: {'native' if native else 'emulated'} bfloat16"),
        (
            "FP8",
            True,
            "reference",
            "no CPU has FP8 arithmetic: FP8 storage, the product in float32; slow",
        ),
        (
            "INT8",
            True,
            integer,
            f"vLLM's kernel; instructions here: {', '.join(sorted(known)) or 'none'}",
        ),
        ("W4A16", True, "vLLM CPUWNA16", "from an AutoRound checkpoint"),
    ]
