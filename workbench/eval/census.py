"""What really ran, in one table for people."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from workbench.eval.labels import label
from workbench.eval.units import MIB
from workbench.records import GenerationSet

KEYS = ["quantized", "kernel", "weight_dtype", "reason"]
COLUMNS = [
    "precision",
    "quantized",
    "number",
    "weights_mib",
    "weight_dtype",
    "kernel",
    "reason",
    "layers",
]


def census(sets: Iterable[GenerationSet]) -> pd.DataFrame:
    """Which kernel multiplies which linears at each precision, and what stayed in 16 bit and why.

    Returns:
        One row a precision and kind of linear: precision, quantized, number, weights_mib,
        weight_dtype, kernel, reason (why it stayed in 16 bit), layers (names, ``*`` for a number,
        what follows the number of a block in braces).
    """
    return pd.concat([_grouped(one) for one in sets], ignore_index=True)


def _grouped(one: GenerationSet) -> pd.DataFrame:
    table = one.audit.table()
    table["layers"] = table["name"].str.replace(r"\.\d+(?=\.)", ".*", regex=True)
    table["kernel"] += table["reference_kernel"].map({True: " (reference kernel)", False: ""})
    grouped = table.groupby(KEYS, sort=False, as_index=False).agg(
        number=("name", "size"),
        weights_mib=("weight_bytes", lambda sizes: sizes.sum() / MIB),
        layers=("layers", _braced),
    )
    return grouped.assign(precision=label(one))[COLUMNS]


def _braced(names: Iterable[str]) -> str:
    """``a.*.b, a.*.c, d`` -> ``a.*.{b, c}, d``."""
    inner: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        block, star, rest = name.partition(".*.")
        inner.setdefault(block + star, []).append(rest)
    return ", ".join(
        block + (rest[0] if len(rest) == 1 else f"{{{', '.join(rest)}}}")
        for block, rest in inner.items()
    )
