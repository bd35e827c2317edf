"""Zero points of packed integers against what the packing label says.

GPTQ's first format stores them minus one (a symmetric 4-bit zero is 7), its second as they are (8);
https://github.com/ModelCloud/GPTQModel, ``checkpoint_format``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from workbench.quant.lint.findings import ERROR, Finding
from workbench.quant.lint.folder import Component
from workbench.quant.lint.small import Raw, read_small
from workbench.zoo.inventory import StoredLinear

_BITS = {"W4A16": 4, "W8A16": 8}


def check_zeros(component: Component, budget: int) -> Iterator[Finding]:
    """A symmetric checkpoint holds one zero point, and which one depends on the label."""
    config = component.quantization
    if config.get("sym") is not True:
        return
    names = [name for name in component.tensors if name.endswith(".qzeros")]
    for raw in read_small(component.tensors, names, budget):
        linear = component.linears.get(raw.name.rpartition(".")[0])
        if linear is not None and raw.facts.dtype == "I32" and len(raw.data):
            yield from _zeros(component, linear, raw, _label(config))


def _zeros(
    component: Component, linear: StoredLinear, raw: Raw, label: tuple[str, int]
) -> Iterator[Finding]:
    bits = _BITS.get(linear.scheme, 4)
    name, stored_less = label
    middle = 1 << (bits - 1)
    expected, other = middle - stored_less, middle - 1 + stored_less
    found = _values(raw.data, bits)
    if found.size == 1 and found[0] == expected:
        return
    if found.size == 1 and found[0] == other:
        problem = (
            f"holds zero points {other}, but {name} means {expected}: every weight is off by one "
            "step. Correct the label, or pack again"
        )
    else:
        shown = ", ".join(map(str, found[:5])) + (", ..." if found.size > 5 else "")
        problem = (
            f"holds zero points {shown} where symmetric weights under {name} have {expected} only; "
            "the weights are asymmetric or the file is damaged: pack again"
        )
    yield Finding(ERROR, "packing-zeros", component.file_of(raw.facts), raw.name, problem)


def _values(data: np.ndarray, bits: int) -> np.ndarray:
    """The different values in packed bytes."""
    least = data.min()
    seen = data[:1] if least == data.max() else np.unique(data)
    return seen if bits == 8 else np.unique(np.concatenate((seen & 0xF, seen >> 4)))


def _label(config: dict[str, Any]) -> tuple[str, int]:
    """What a config calls its packing, and how much less than the zero point it stores."""
    packing = str(config.get("packing_format") or config.get("checkpoint_format") or "")
    packing = packing or (
        "gptq" if config.get("quant_method") == "gptq" else "auto_round:auto_gptq"
    )
    return f"the packing {packing!r}", int("gptq" in packing and not packing.endswith("v2"))
