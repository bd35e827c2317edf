"""The same model at other precisions: what each scheme would leave on a device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from workbench.schemes import SCHEMES, SIXTEEN_BIT
from workbench.serve.layouts import describe
from workbench.serve.plan_facts import Facts, Part
from workbench.serve.plan_layouts import Layouts
from workbench.serve.plan_memory import GIB, weights_of
from workbench.serve.shards import Share, side_of, unit_of
from workbench.specs import Parallelism
from workbench.zoo.presets import AUTOROUND, MODELOPT, ONLINE, kept_reason

OFFERED = (
    ("BF16", ONLINE),
    ("FP8", ONLINE),
    ("INT8", ONLINE),
    ("W8A16", AUTOROUND),
    ("W4A16", AUTOROUND),
    ("FP8", MODELOPT),
    ("NVFP4", MODELOPT),
)
"""Schemes that are compared, and the way to each."""
_ONLINE_BITS = 8


def under(facts: Facts, scheme: str, method: str) -> Facts:
    """The same model with its linears in a scheme, those left out that the preset keeps.

    Args:
        facts: At whatever precision; shapes are all that is taken.
        scheme: BF16, or FP8 or INT8 online, or a name of SCHEMES.
        method: ``online``, ``modelopt`` or ``auto-round``: each keeps other linears.
    """
    parts = tuple(_part(facts, part, scheme, method) for part in facts.parts)
    return replace(facts, parts=parts)


def scheme_rows(layouts: Layouts) -> Iterator[dict[str, Any]]:
    """A row a scheme, as :meth:`workbench.serve.plan_result.Plan.with_schemes` says."""
    for scheme, method in OFFERED:
        other = under(layouts.facts, scheme, method)
        judged = layouts.but(other)
        best = judged.smallest()
        yield {
            "scheme": scheme,
            "how": "as it is" if scheme == "BF16" else method,
            "quantized": _quantized(other),
            "weights_gib": sum(weights_of(other, 1).values()) / GIB,
            "memory_gib": judged.judge(Parallelism()).needed / GIB,
            "smallest_gpus": best.parallelism.world_size if best else None,
            "layout": describe(best.parallelism) if best else None,
        }


def _part(facts: Facts, part: Part, scheme: str, method: str) -> Part:
    kept = scheme == "BF16" or kept_reason(facts.preset, part.name, method) is not None
    side = side_of(facts.preset, part.name)
    bias = part.outputs * facts.element * part.bias
    bits = 8 * facts.element if kept else _bits(scheme, method)
    matrix = int(part.outputs * part.inputs * bits / 8)
    whole = matrix + bias if side is None else bias if side == "input channels" else 0
    share = None
    if side is not None:
        count = part.inputs if side == "input channels" else part.outputs
        packed = not kept and method != ONLINE
        unit = unit_of(scheme, side, SCHEMES[scheme].block) if packed else 1
        share = Share(side=side, count=count, unit=unit)
    return replace(
        part,
        scheme="BF16" if kept else scheme,
        share=share,
        divided=matrix + bias - whole,
        whole=whole,
    )


def _bits(scheme: str, method: str) -> float:
    return _ONLINE_BITS if method == ONLINE else SCHEMES[scheme].bits


def _quantized(facts: Facts) -> float:
    """Share of the transformers' weights in fewer than 16 bits."""
    sizes = [(p.number * p.outputs * p.inputs, p.scheme not in SIXTEEN_BIT) for p in facts.parts]
    return sum(size for size, packed in sizes if packed) / max(1, sum(size for size, _ in sizes))
