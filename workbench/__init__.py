"""Omni Quant Workbench: decide how to run a diffusion or omni model at low precision.

>>> import workbench as wb
>>> model = wb.ModelRef("embedded:qwen-image")

The public names load on first use, so that importing the workbench costs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# At once, since the submodule of the same name would hide the function.
from workbench.provenance import provenance

_HOME = {
    **dict.fromkeys(
        ("ModelRef", "Parallelism", "LaunchSpec", "Sampling", "PromptSet", "Workload"), "specs"
    ),
    **dict.fromkeys(("QuantRecipe", "Calibration"), "recipes"),
    "load": "records",
    **dict.fromkeys(("quantize", "lint", "recipe_from_command"), "quant"),
    "activation_ranges": "quant.ranges",
    **dict.fromkeys(("launch", "generate", "follow", "decode", "capabilities", "serve"), "serve"),
    "plan": "serve.planning",
    "benchmark": "serve.benchmarking",
    **dict.fromkeys(("compare", "summary", "velocity_errors", "report"), "eval"),
    **dict.fromkeys(("score", "metric_table"), "eval.metrics"),
    **dict.fromkeys(("frame_scores", "temporal_table", "temporal_scores"), "eval.clip_scores"),
    **dict.fromkeys(("speed_table", "speedup"), "eval.speed"),
    "crossing": "eval.crossing",
    "advice": "eval.advice",
    "noise_floor": "noise",
}
__all__ = ["provenance", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"workbench has no {name!r}; it has {', '.join(__all__)}")
    home = import_module(f"workbench.{_HOME[name]}")
    return home if _HOME[name] == name else getattr(home, name)  # serve is a part and a function


def __dir__() -> list[str]:
    return sorted(__all__)
