"""16-bit linears on CPU: what vLLM packs out of sight is remembered, for the audit."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from torch.nn import Module
from vllm.model_executor.layers import utils as layer_utils


def register() -> None:
    """Remember dtype and size of each weight before vLLM packs it."""
    if not hasattr(layer_utils.dispatch_cpu_unquantized_gemm, "__wrapped__"):
        layer_utils.dispatch_cpu_unquantized_gemm = _remembering(
            layer_utils.dispatch_cpu_unquantized_gemm
        )


def _remembering(dispatch: Callable[..., None]) -> Callable[..., None]:
    @wraps(dispatch)
    def remembered(layer: Module, remove_weight: bool) -> None:
        layer.workbench_weight = (layer.weight.dtype, layer.weight.numel())
        dispatch(layer, remove_weight)

    return remembered
