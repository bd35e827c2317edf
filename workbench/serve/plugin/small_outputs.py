"""What a worker process sends is on the CPU, however small.

Stock vLLM-Omni copies tensors above 1 MB into shared memory, and pickles smaller ones as they are
(diffusion/ipc.py:172): a small picture arrives as a CUDA tensor, and unpickling it opens a context
of 0.6 GiB in the engine's process, which ``isolation="process"`` is there to avoid.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from vllm_omni.diffusion import ipc


def register() -> None:
    """Copy what stays in the message to the CPU."""
    if not hasattr(ipc._pack_tensor_if_large, "__wrapped__"):
        ipc._pack_tensor_if_large = _on_the_cpu(ipc._pack_tensor_if_large)


def _on_the_cpu(pack: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(pack)
    def packed(val: torch.Tensor, **named: Any) -> Any:
        result = pack(val, **named)
        return result.cpu() if isinstance(result, torch.Tensor) else result

    return packed
