"""The real vLLM-Omni on a plain CPU: an out-of-tree platform, active where there is no accelerator.

Both functions are entry points (pyproject.toml); vLLM and vLLM-Omni call them in every process.
"""

from __future__ import annotations

__all__ = ["omni_platform", "register"]


def omni_platform() -> str | None:
    """Class path of the platform where vLLM itself runs on CPU, else None."""
    return "workbench.serve.cpu.platform.CpuOmniPlatform" if _on_cpu() else None


def register() -> None:
    """Add CPU quantization methods, kernels and the worker's output path; again is harmless."""
    if not _on_cpu():
        return
    from workbench import bf16
    from workbench.serve.cpu import (
        blocks,
        fp8,
        int8,
        unquantized,
        warmup,
        wna16,
        worker,
    )

    for part in (bf16, blocks, fp8, int8, unquantized, warmup, wna16, worker):
        part.register()


def _on_cpu() -> bool:
    from vllm.platforms import current_platform

    return current_platform.is_cpu()
