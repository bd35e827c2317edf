"""What a set is called in tables and figures."""

from __future__ import annotations

from workbench.records import GenerationSet


def label(one: GenerationSet) -> str:
    """The precision, and which repeat: ``FP8``, ``BF16 repeat``, ``BF16 repeat 2``."""
    repeat = one.spec.repeat
    return (
        f"{one.precision} repeat{f' {repeat}' if repeat > 1 else ''}" if repeat else one.precision
    )
