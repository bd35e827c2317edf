"""What runs inside each worker: records trajectories, reads the loaded modules, counts memory.

vLLM-Omni mixes :class:`WorkerTools` into its worker (``worker_extension_cls``); the engine calls
the methods through ``collective_rpc`` and gets the answer of rank 0.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.distributed import get_tensor_model_parallel_world_size
from vllm.model_executor.layers.linear import LinearBase
from vllm_omni.diffusion.distributed import parallel_state
from vllm_omni.platforms import current_omni_platform

from workbench.serve.recorder import Recorder

TRANSFORMERS = ("transformer", "transformer_2", "bagel", "language_model")


class WorkerTools:
    """Mixed into the worker; every rank runs these, rank 0 answers."""

    model_runner: Any

    def workbench_start(self, record: bool) -> None:
        """Before a request: a new peak, and a new trajectory if asked for."""
        if not hasattr(self, "_workbench_recorder"):
            self._workbench_recorder = Recorder(self.model_runner.pipeline)
        if record:
            self._workbench_recorder.start()
        current_omni_platform.reset_peak_memory_stats()
        self._workbench_resident = current_omni_platform.memory_allocated()

    def workbench_finish(self) -> dict[str, Any]:
        """After a request: the trajectory, and the peak memory of all ranks together in bytes."""
        return {
            "trajectory": self._workbench_recorder.finish(),
            "peak_memory_bytes": sum(_gather(self._peak_memory())),
        }

    def workbench_census(self) -> dict[str, Any]:
        """Plain facts about the loaded pipeline on this rank, for :mod:`workbench.serve.audit`."""
        pipeline = self.model_runner.pipeline
        return {
            "linears": [
                fact
                for component in TRANSFORMERS
                if isinstance(getattr(pipeline, component, None), torch.nn.Module)
                for fact in _linears(component, getattr(pipeline, component))
            ],
            "attention_backend": _attention_backend(pipeline),
            "weight_bytes": _weight_bytes(pipeline),
            "world_sizes": _world_sizes(),
            "platform": current_omni_platform.device_type,
            "device": current_omni_platform.get_device_name(),
        }

    def _peak_memory(self) -> int:
        if current_omni_platform.is_cuda():
            return current_omni_platform.max_memory_reserved()
        # No allocator keeps books on CPU: the weights, and how far the request rose above rest.
        rise = current_omni_platform.max_memory_allocated() - self._workbench_resident
        return sum(_weight_bytes(self.model_runner.pipeline).values()) + max(0, rise)


def _gather(value: Any) -> list[Any]:
    group = parallel_state.get_world_group()
    if group.world_size == 1:
        return [value]
    values: list[Any] = [None] * group.world_size
    torch.distributed.all_gather_object(values, value, group=group.cpu_group)
    return values


def _linears(component: str, root: torch.nn.Module) -> list[dict[str, Any]]:
    return [
        {"name": f"{component}.{name}", **_linear(module)}
        for name, module in root.named_modules()
        if isinstance(module, (torch.nn.Linear, LinearBase))
    ]


def _linear(module: torch.nn.Module) -> dict[str, Any]:
    method = getattr(module, "quant_method", None)
    kernel = _kernel(method)
    tensors = {name: t for name, t in _own_tensors(module) if name != "bias"}
    dtype, packed_bytes = _stored(module, tensors)
    return {
        "layer": type(module).__name__,
        "method": type(method).__name__ if method is not None else "none",
        "kernel": _kernel_name(module, kernel),
        "activations_8bit": bool(getattr(module, "use_w4a8", False)),
        "reference_kernel": bool(getattr(kernel, "reference_kernel", False)),
        "weight_dtype": dtype,
        "weight_bytes": packed_bytes + sum(t.nbytes for t in tensors.values()),
        "parameters": _size(module, "input") * _size(module, "output"),
    }


def _stored(module: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> tuple[str, int]:
    """Dtype of the weight, and its bytes where a kernel has packed it out of sight."""
    weight = tensors.get("weight", tensors.get("qweight"))
    if weight is not None and weight.numel():
        return str(weight.dtype).removeprefix("torch."), 0
    dtype, elements = module.workbench_weight
    return str(dtype).removeprefix("torch."), elements * dtype.itemsize


def _kernel(method: Any, depth: int = 3) -> Any:
    """The object that multiplies: vLLM keeps it in an attribute of the method, or of its scheme."""
    for value in vars(method).values() if hasattr(method, "__dict__") else ():
        if type(value).__name__.endswith("Kernel"):
            return value
        nested = type(value).__name__.endswith(("Scheme", "LinearMethod")) and depth
        if nested and (found := _kernel(value, depth - 1)) is not None:
            return found
    return None


def _kernel_name(module: torch.nn.Module, kernel: Any) -> str:
    if kernel is not None:
        return type(kernel).__name__
    return "vLLM CPU linear" if hasattr(module, "cpu_linear") else "torch linear"


def _own_tensors(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]


def _size(module: torch.nn.Module, side: str) -> int:
    """Input or output features of this rank's part of a linear."""
    if isinstance(module, torch.nn.Linear):
        return module.in_features if side == "input" else module.out_features
    return getattr(module, f"{side}_size_per_partition", None) or getattr(module, f"{side}_size")


def _weight_bytes(pipeline: torch.nn.Module) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for component, child in pipeline.named_children():
        tensors = {t.data_ptr(): t.nbytes for t in [*child.parameters(), *child.buffers()]}
        hidden = sum(_stored(m, {})[1] for m in child.modules() if _packed(m))
        sizes[component] = sum(tensors.values()) + hidden
    return {name: size for name, size in sizes.items() if size}


def _packed(module: torch.nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    return hasattr(module, "workbench_weight") and (weight is None or not weight.numel())


def _attention_backend(pipeline: torch.nn.Module) -> str:
    names = {
        module.attn_backend.get_name()
        for module in pipeline.modules()
        if getattr(module, "attn_backend", None) is not None
    }
    return "+".join(sorted(names)) or "none"


def _world_sizes() -> dict[str, int]:
    return {
        "world": parallel_state.get_world_group().world_size,
        "tensor_parallel": get_tensor_model_parallel_world_size(),
        "cfg_parallel": parallel_state.get_classifier_free_guidance_world_size(),
        "ulysses": parallel_state.get_ulysses_parallel_world_size(),
        "ring": parallel_state.get_ring_parallel_world_size(),
    }
