"""Which scales a stored linear must have beside it, by its scheme and its config."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.quant.lint.folder import Component
from workbench.quant.lint.methods import algorithm, inner, mapping
from workbench.schemes import SCHEMES
from workbench.zoo.inventory import StoredLinear

_WEIGHT_ONLY = "W4A16_NVFP4"


def missing_scales(component: Component, linear: StoredLinear) -> list[str]:
    """Last parts of the names of the scales that a linear lacks, in order."""
    if linear.scheme not in SCHEMES:
        return []
    needed = set(SCHEMES[linear.scheme].scales) - set(linear.tensors)
    if linear.scheme == "NVFP4" and _weight_only(component):
        needed.discard("input_scale")
    return sorted(needed)


def _weight_only(component: Component) -> bool:
    """Whether the config declares 16-bit activations, as vLLM's ModelOptNvFp4Config reads it."""
    config = component.quantization
    if algorithm(config) == _WEIGHT_ONLY:
        return True
    layers = mapping(inner(config).get("quantized_layers"))
    if any(mapping(entry).get("quant_algo") == _WEIGHT_ONLY for entry in layers.values()):
        return True
    groups = mapping(config.get("config_groups"))
    return bool(groups) and all(
        isinstance(group, Mapping) and group.get("input_activations") is None
        for group in groups.values()
    )
