"""Scales that stock vLLM-Omni loses on the way from a ModelOpt file to the layer.

Its adapter passes on a scale only if it finds the layer, and does not know the names that a family
changes (diffusion/model_loader/checkpoint_adapters/modelopt.py:137; Wan's ``ffn.net.0`` is
``ffn.net_0`` there): the scale is dropped with a log line. And it adapts the folder ``transformer``
alone (:84), so a second expert gets FP8 numbers where its layer holds 16 bits, without their scale.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from vllm_omni.diffusion.model_loader.checkpoint_adapters.modelopt import (
    ModelOptFp8CheckpointAdapter,
)

from workbench.zoo.names import stored_name
from workbench.zoo.presets import PRESETS

TRANSFORMER = "transformer"


def register() -> None:
    """Mend the adapter, which those of NVFP4 and of mixed checkpoints inherit from."""
    adapter = ModelOptFp8CheckpointAdapter
    if hasattr(adapter._resolve_target_and_output_names, "__wrapped__"):
        return
    adapter._resolve_target_and_output_names = _renamed(adapter._resolve_target_and_output_names)
    adapter._is_transformer_source = staticmethod(_every_expert(adapter._is_transformer_source))


def _renamed(resolve: Callable[..., tuple[str | None, str]]) -> Callable[..., Any]:
    @wraps(resolve)
    def resolved(self: Any, name: str) -> tuple[str | None, str]:
        target, passed_on = resolve(self, name)
        if target is not None:
            return target, passed_on
        component, _, rest = name.partition(".")
        for preset in PRESETS:
            candidate = f"{component}.{stored_name(preset, rest)}"
            if candidate in self._loadable_tensors:
                return candidate, name  # the model's own loader renames it once more
        return None, passed_on

    return resolved


def _every_expert(is_transformer: Callable[[Any], bool]) -> Callable[[Any], bool]:
    @wraps(is_transformer)
    def found(source: Any) -> bool:
        first = str(getattr(source, "prefix", "")).partition(".")[0]
        folder = str(getattr(source, "subfolder", ""))
        expert = f"{TRANSFORMER}_"
        return is_transformer(source) or first.startswith(expert) or folder.startswith(expert)

    return found
