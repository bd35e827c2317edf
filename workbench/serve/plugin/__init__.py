"""Repairs of vLLM-Omni 0.30.0 where it loads or runs quantized layers, and sends small pictures.

An entry point of the group ``vllm_omni.general_plugins`` (pyproject.toml): vLLM-Omni calls it in
every process, the workers' included. Nothing changes for a model that needs no repair. What is
promised, and which upstream line each works around, is data: :data:`workbench.zoo.repairs.REPAIRS`.
"""

from __future__ import annotations

__all__ = ["register"]


def register() -> None:
    """Put every repair in force, and keep the peak of the load; again is harmless."""
    from workbench.serve import peaks
    from workbench.serve.plugin import (
        adapters,
        detection,
        missing,
        small_outputs,
        strided,
        unread,
    )

    for part in (detection, adapters, missing, strided, unread, small_outputs, peaks):
        part.register()
