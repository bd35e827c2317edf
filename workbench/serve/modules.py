"""Plain facts about the linears of a loaded pipeline, for the census; runs inside the workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from vllm.model_executor.layers.linear import LinearBase

TRANSFORMERS = ("transformer", "transformer_2", "bagel", "language_model")
WEIGHTS = ("weight", "qweight", "weight_packed")


def linears(pipeline: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """Every linear of the transformers, its component in its name."""
    for component in TRANSFORMERS:
        root = getattr(pipeline, component, None)
        if isinstance(root, torch.nn.Module):
            for name, module in root.named_modules():
                if isinstance(module, (torch.nn.Linear, LinearBase)):
                    yield f"{component}.{name}", module


def facts(module: torch.nn.Module) -> dict[str, Any]:
    """What a linear holds and what multiplies it."""
    method = getattr(module, "quant_method", None)
    kernel = _kernel(method)
    tensors = {name: t for name, t in own_tensors(module) if name != "bias"}
    dtype, weight_bytes, hidden = _stored(module, tensors)
    return {
        "layer": type(module).__name__,
        "method": type(method).__name__ if method is not None else "none",
        "kernel": _kernel_name(module, kernel),
        "activations_8bit": bool(getattr(module, "use_w4a8", False)),
        "reference_kernel": bool(getattr(kernel, "reference_kernel", False)),
        "inputs": _scales_of_inputs(kernel),
        "weight_dtype": dtype,
        "packed_bytes": weight_bytes,
        "weight_bytes": hidden + sum(t.nbytes for t in tensors.values()),
        "parameters": size(module, "input") * size(module, "output"),
    }


def size(module: torch.nn.Module, side: str) -> int:
    """Input or output features of this rank's part of a linear."""
    if isinstance(module, torch.nn.Linear):
        return module.in_features if side == "input" else module.out_features
    return getattr(module, f"{side}_size_per_partition", None) or getattr(module, f"{side}_size")


def own_tensors(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Parameters and buffers of a module itself."""
    return [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]


def weight_bytes(pipeline: torch.nn.Module) -> dict[str, int]:
    """Parameters and buffers of each component, those that a kernel hides included."""
    sizes: dict[str, int] = {}
    for component, child in pipeline.named_children():
        tensors = {t.data_ptr(): t.nbytes for t in [*child.parameters(), *child.buffers()]}
        hidden = sum(_stored(m, {})[2] for m in child.modules() if _hidden(m))
        sizes[component] = sum(tensors.values()) + hidden
    return {name: size for name, size in sizes.items() if size}


def _stored(module: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> tuple[str, int, int]:
    """Dtype and bytes of the weight, and how many of them a kernel has packed out of sight."""
    weight = next((tensors[name] for name in WEIGHTS if name in tensors), None)
    if weight is not None and weight.numel():
        return _name(weight.dtype), weight.nbytes, 0
    if hasattr(module, "workbench_weight"):
        dtype, elements = module.workbench_weight
        return _name(dtype), elements * dtype.itemsize, elements * dtype.itemsize
    largest = max(tensors.values(), key=lambda t: t.nbytes)
    return _name(largest.dtype), largest.nbytes, 0


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _hidden(module: torch.nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    return hasattr(module, "workbench_weight") and (weight is None or not weight.numel())


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


def _scales_of_inputs(kernel: Any) -> str:
    """Which inputs share a scale, as far as a kernel says: ``per token``, ``one fixed scale``."""
    config = getattr(kernel, "config", None)
    key = getattr(config, "activation_quant_key", None)
    if key is not None:
        shape = key.scale.group_shape
        if key.scale.static:
            return "one fixed scale"
        return "per tensor" if shape.is_per_tensor() else "per token"
    return "per token" if getattr(config, "is_static_input_scheme", None) is False else ""
