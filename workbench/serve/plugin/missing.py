"""A scale that no file filled is an error that names it.

Stock vLLM-Omni logs a warning and computes with what the memory held
(diffusion/model_loader/diffusers_loader.py:1126). Here every scale starts as a value that no
checkpoint has, NaN, so that a scale that was loaded for one member of a fused layer but not for
another is seen as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any

import torch
from torch.nn import Module, Parameter
from vllm.model_executor.layers.linear import LinearBase, UnquantizedLinearMethod
from vllm_omni.diffusion.model_loader.diffusers_loader import DiffusersPipelineLoader

E8M0_NAN = 255  # OCP Microscaling Formats 1.0, section 5.4.1
E4M3_NAN = 0x7F


def register() -> None:
    """Check after every load."""
    if not hasattr(DiffusersPipelineLoader.load_weights, "__wrapped__"):
        DiffusersPipelineLoader.load_weights = _checked(DiffusersPipelineLoader.load_weights)


def _checked(load: Callable[..., None]) -> Callable[..., None]:
    @wraps(load)
    def checked(
        self: Any, model: Module, *, planned_weights: Iterable[str] = (), **options: Any
    ) -> None:
        planned = set(planned_weights)
        scales = {name: scale for name, scale in _scales(model) if name not in planned}
        for scale in scales.values():
            empty(scale)
        load(self, model, planned_weights=planned, **options)
        after = dict(model.named_parameters())
        lost = [name for name, scale in scales.items() if after.get(name) is scale and gaps(scale)]
        if lost:
            shown = ", ".join(lost[:6]) + (f" and {len(lost) - 6} more" if len(lost) > 6 else "")
            raise ValueError(
                f"no file holds the scale of {shown}: the layer would compute garbage. "
                "workbench.lint names what is wrong with the checkpoint; quantize it again"
            )

    return checked


def empty(scale: Parameter) -> None:
    """Make every element one that no checkpoint holds."""
    if scale.dtype == torch.uint8:
        scale.data.fill_(E8M0_NAN)
    elif scale.dtype == torch.float8_e4m3fn:
        scale.data.view(torch.uint8).fill_(E4M3_NAN)
    else:
        scale.data.fill_(torch.nan)


def gaps(scale: Parameter) -> bool:
    """Whether an element was never filled, or filled with what is no number."""
    if scale.dtype == torch.uint8:
        return bool((scale.data == E8M0_NAN).any())
    return bool(scale.data.float().isnan().any())


def _scales(model: Module) -> Iterator[tuple[str, Parameter]]:
    """Every scale that a file must hold, by name."""
    for owner, module in model.named_modules():
        method = getattr(module, "quant_method", None)
        if not isinstance(module, LinearBase) or isinstance(method, UnquantizedLinearMethod):
            continue
        for name, parameter in module.named_parameters(recurse=False):
            if "scale" in name and _needed(method, name, parameter):
                yield f"{owner}.{name}", parameter


def _needed(method: Any, name: str, parameter: Parameter) -> bool:
    """Not those of weight-only NVFP4, which are read and dropped (modelopt.py:2365)."""
    dropped = name == "input_scale" and getattr(method, "akey", method) is None
    known = parameter.dtype == torch.uint8 or parameter.dtype.is_floating_point
    optional = getattr(parameter, "is_checkpoint_optional", False)
    return known and not (dropped or optional or parameter.device.type == "meta")
