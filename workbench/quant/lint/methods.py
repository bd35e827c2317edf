"""Every spelling of a quantization method that checkpoints bear, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

AUTOROUND, MODELOPT, FP8, INT8 = "auto-round", "modelopt", "fp8", "int8"
COMPRESSED, TORCHAO = "compressed-tensors", "torchao"
SPELLINGS: dict[str, tuple[str, ...]] = {
    AUTOROUND: ("auto-round", "autoround", "inc", "intel/auto-round"),
    MODELOPT: ("modelopt", "modelopt-fp4", "modelopt-fp8", "modelopt-mixed", "modelopt-mxfp8"),
    FP8: ("fp8",),
    INT8: ("int8",),
    COMPRESSED: ("compressed-tensors",),
    TORCHAO: ("torchao",),
    "gptq": ("gptq", "auto-gptq", "gptq-marlin"),
    "awq": ("awq", "auto-awq", "awq-marlin"),
    "bitsandbytes": ("bitsandbytes",),
}
"""Canonical name -> spellings, in lower case and with hyphens."""


@dataclass(frozen=True, slots=True)
class MethodName:
    """A method as a checkpoint spells it, and by its one name."""

    raw: str
    """As written; empty where no config says anything."""
    canonical: str
    """A key of :data:`SPELLINGS`, or empty if unknown."""

    def __str__(self) -> str:
        if not self.raw:
            return "none"
        return self.canonical if self.raw == self.canonical else f"{self.canonical} ({self.raw!r})"


def canonical(raw: str) -> str:
    """The one name of a method, or an empty string where nobody knows the spelling."""
    spelling = raw.strip().lower().replace("_", "-")
    return next((name for name, known in SPELLINGS.items() if spelling in known), "")


def method_of(config: Mapping[str, Any]) -> MethodName:
    """What a quantization config says: ``quant_method``, ``method``, or its producer's name."""
    made_by = mapping(config.get("producer")).get("name")
    raw = config.get("quant_method") or config.get("method") or made_by or ""
    return MethodName(str(raw), canonical(str(raw)))


def algorithm(config: Mapping[str, Any]) -> str:
    """ModelOpt's ``quant_algo``, in capitals; empty where there is none."""
    return str(inner(config).get("quant_algo") or "").upper()


def known() -> str:
    """All spellings, for a message."""
    return ", ".join(spelling for spellings in SPELLINGS.values() for spelling in spellings)


def mapping(value: Any) -> Mapping[str, Any]:
    """A JSON object, or an empty one in the place of anything else."""
    return value if isinstance(value, Mapping) else {}


def texts(value: Any) -> list[str]:
    """The strings of a JSON list, or of comma-separated text."""
    found = value.split(",") if isinstance(value, str) else value
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def inner(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where a ModelOpt config holds its entries: itself, or ``quantization`` in the old layout."""
    return mapping(config.get("quantization")) or config


def ignored(config: Mapping[str, Any]) -> list[str]:
    """ModelOpt's list of what stays in 16 bit, in either layout."""
    old = bool(mapping(config.get("quantization")))
    return texts(inner(config).get("exclude_modules" if old else "ignore"))
