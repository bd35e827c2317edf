"""Where models lie: the embedded ones, local folders, the hub's cache.

Names load on first use, so that the training code runs where only torch and numpy are installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["default_sampling", "locate", "outlined", "pin"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"workbench.zoo has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module("workbench.zoo.models"), name)
