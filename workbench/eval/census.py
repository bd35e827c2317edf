"""What really ran, in one table for people."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from workbench.eval.labels import labels
from workbench.eval.units import MIB
from workbench.records import GenerationSet

KEYS = ["component", "scheme", "quantized", "kernel", "kind"]
KEYS += ["file_dtype", "weight_dtype", "activations", "reason"]
COLUMNS = [
    "precision",
    "component",
    "scheme",
    "quantized",
    "number",
    "weights_mib",
    "file_dtype",
    "weight_dtype",
    "activations",
    "kernel",
    "kind",
    "weight_error",
    "reason",
    "layers",
]


def census(sets: Iterable[GenerationSet]) -> pd.DataFrame:
    """Which kernel multiplies which linears at each precision, and what stayed in 16 bit and why.

    Returns:
        One row a precision and kind of linear: precision, component (its transformer, where a model
        has several), scheme (that it should run in),
        quantized, number, weights_mib, file_dtype and weight_dtype (stored and loaded),
        activations (what happens to its inputs), kernel, kind (native, weight-only, emulated,
        reference), weight_error (largest of those read back, against the source; missing where
        none was), reason (why it stayed in 16 bit), layers (names, ``*`` for a number, what follows
        the number of a block in braces).
    """
    every = list(sets)
    tables = [_grouped(one, name) for one, name in zip(every, labels(every), strict=True)]
    table = pd.concat(tables, ignore_index=True)
    several = any(len(one.audit.shares) > 1 for one in every)
    return table if several else table.drop(columns="component")


def _grouped(one: GenerationSet, name: str) -> pd.DataFrame:
    table = one.audit.table().assign(component=[layer.component for layer in one.audit.layers])
    table["weight_error"] = table["weight_error"].astype(float)
    table["layers"] = table["name"].str.replace(r"\.\d+(?=\.)", ".*", regex=True)
    table["kernel"] += table["reference_kernel"].map({True: " (reference kernel)", False: ""})
    grouped = table.groupby(KEYS, sort=False, as_index=False).agg(
        number=("name", "size"),
        weights_mib=("weight_bytes", lambda sizes: sizes.sum() / MIB),
        weight_error=("weight_error", "max"),
        layers=("layers", _braced),
    )
    return grouped.assign(precision=name)[COLUMNS]


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
