"""The platform class that vLLM-Omni asks for devices, attention, memory and workers."""

from __future__ import annotations

import os
from typing import Any

import torch
from vllm.platforms.cpu import CpuPlatform
from vllm_omni.platforms.interface import OmniPlatform, OmniPlatformEnum

from workbench.serve.cpu import memory
from workbench.serve.guards import MOST_CPU_WORKERS


class CpuOmniPlatform(OmniPlatform, CpuPlatform):
    """Diffusion on CPU: torch SDPA, resident memory, one process a worker."""

    _omni_enum = OmniPlatformEnum.OOT

    @classmethod
    def get_diffusion_attn_backend_cls(
        cls, selected_backend: str | None, head_size: int, allow_trtllm_default: bool = False
    ) -> str:
        if (selected_backend or "TORCH_SDPA").upper() != "TORCH_SDPA":
            raise ValueError(
                f"attention backend {selected_backend} does not run on CPU; use TORCH_SDPA"
            )
        return "workbench.serve.cpu.attention.CpuSDPABackend"

    @classmethod
    def supports_torch_inductor(cls) -> bool:
        return True

    @classmethod
    def supports_cpu_offload(cls) -> bool:
        return False

    @classmethod
    def get_torch_device(cls, local_rank: int | None = None) -> torch.device:
        return torch.device("cpu")

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        # First call of a worker, before it loads anything: the zero of its memory figures.
        memory.set_baseline()
        workers = int(os.environ.get("WORLD_SIZE", "1"))
        if workers > 1:  # else every process takes all cores and they wait for each other
            torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))

    @classmethod
    def get_device_count(cls) -> int:
        return MOST_CPU_WORKERS  # vLLM-Omni refuses a world larger than this

    @classmethod
    def get_device_version(cls) -> str | None:
        return None

    @classmethod
    def synchronize(cls) -> None:
        return

    @classmethod
    def empty_cache(cls) -> None:
        memory.trim()

    @classmethod
    def get_free_memory(cls, device: torch.device | None = None) -> int:
        return cls.get_device_memory(device)[0]

    @classmethod
    def get_device_memory(cls, device: torch.device | None = None) -> tuple[int, int]:
        import psutil

        machine = psutil.virtual_memory()
        return machine.available, machine.total

    @classmethod
    def memory_reserved(cls, device: Any = None) -> int:
        return memory.allocated_bytes()

    memory_allocated = memory_reserved

    @classmethod
    def reset_peak_memory_stats(cls, device: Any = None) -> None:
        memory.reset_peak()

    @classmethod
    def max_memory_reserved(cls, device: Any = None) -> int:
        return memory.peak_bytes()

    max_memory_allocated = max_memory_reserved

    @classmethod
    def get_omni_ar_worker_cls(cls) -> str:
        return "vllm.v1.worker.cpu_worker.CPUWorker"

    @classmethod
    def get_omni_generation_worker_cls(cls) -> str:
        return "vllm.v1.worker.cpu_worker.CPUWorker"

    @classmethod
    def get_default_stage_config_path(cls) -> str:
        return "vllm_omni/model_executor/stage_configs"
