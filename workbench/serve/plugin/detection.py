"""Which reader a checkpoint's own quantization entry goes to: ModelOpt's, compressed-tensors'.

Stock vLLM-Omni calls the constructor with the entry's keys where ``from_config`` reads them
(quantization/factory.py:328, reached by Wan for each expert and by every algorithm that :262 does
not know, MXFP8 among them), and turns the hyphen of ``compressed-tensors`` into a name that nobody
has (:209).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

from vllm.model_executor.layers.quantization import get_quantization_config
from vllm.model_executor.layers.quantization.base_config import QuantizationConfig
from vllm.model_executor.layers.quantization.modelopt import LINEAR_ALGOS
from vllm_omni.quantization import factory

from workbench.serve.plugin.layers import CONFIGS

OWNERS = {
    **{algorithm: owner for algorithm, (owner, _) in LINEAR_ALGOS.items()},
    "MIXED_PRECISION": "modelopt_mixed",
}
"""ModelOpt's quant_algo -> vLLM's name of its reader."""
COMPRESSED = "compressed-tensors"


def register() -> None:
    """Register the readers, and let an expert's own entry decide how the expert is read."""
    for method in CONFIGS:
        factory.register_quantization_override(method, partial(_modelopt, method))
    factory.register_quantization_override(COMPRESSED, _compressed_tensors)
    factory._build_modelopt_from_config = _from_entry
    if not hasattr(factory.resolve_quant_config_from_disk, "__wrapped__"):
        factory.resolve_quant_config_from_disk = _own_entry_first(
            factory.resolve_quant_config_from_disk
        )


def algorithm_of(entry: Mapping[str, Any]) -> str:
    """ModelOpt's quant_algo of a quantization entry in either of its layouts, or nothing."""
    inner = entry.get("quantization")
    source = inner if isinstance(inner, Mapping) else entry
    return str(source.get("quant_algo") or "").upper()


def _from_entry(method: str, entry: Mapping[str, Any]) -> QuantizationConfig:
    """The config of a ModelOpt entry, by its algorithm.

    Raises:
        ValueError: an algorithm that vLLM does not read.
    """
    algorithm = algorithm_of(entry)
    if algorithm not in OWNERS:
        raise ValueError(
            f"ModelOpt quant_algo {algorithm!r} is unknown to vLLM; it reads {', '.join(OWNERS)}"
        )
    owner = OWNERS[algorithm]
    return CONFIGS[owner].from_config({**entry, "quant_method": owner})


def _modelopt(method: str, **entry: Any) -> QuantizationConfig:
    """``quantization="modelopt_fp4"`` and its like name no algorithm: the checkpoint will."""
    if algorithm_of(entry):
        return _from_entry(method, entry)
    return get_quantization_config(method)(**entry)


def _compressed_tensors(**entry: Any) -> QuantizationConfig:
    return get_quantization_config(COMPRESSED).from_config({"quant_method": COMPRESSED, **entry})


def _own_entry_first(resolve: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(resolve)
    def resolved(active: QuantizationConfig | None, entry: Any) -> QuantizationConfig | None:
        named = isinstance(entry, Mapping) and str(entry.get("quant_method", "")).startswith(
            "modelopt"
        )
        if named and (active is None or active.get_name().startswith("modelopt")):
            return _from_entry("modelopt", entry)
        return resolve(active, entry)

    return resolved
