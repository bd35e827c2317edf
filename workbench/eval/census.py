"""What really ran, in one table for people."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from workbench.eval.labels import label
from workbench.eval.units import MIB
from workbench.records import GenerationSet

KEYS = ["quantized", "kernel", "method", "weight_dtype", "reason"]
COLUMNS = [
    "precision",
    "quantized",
    "number",
    "weights_mib",
    "weight_dtype",
    "kernel",
    "method",
    "reason",
    "layers",
]


def census(sets: Iterable[GenerationSet]) -> pd.DataFrame:
    """Which kernel multiplies which linears at each precision, and what stayed in 16 bit and why.

    Returns:
        One row a precision and kind of linear: precision, quantized, number, weights_mib,
        weight_dtype, kernel,
        method, reason (why it stayed in 16 bit), layers (names, ``*`` for the number of a block).
    """
    return pd.concat([_grouped(one) for one in sets], ignore_index=True)


def _grouped(one: GenerationSet) -> pd.DataFrame:
    table = one.audit.table()
    table["layers"] = table["name"].str.replace(r"\.\d+(?=\.)", ".*", regex=True)
    table["kernel"] += table["reference_kernel"].map({True: " (reference kernel)", False: ""})
    grouped = table.groupby(KEYS, sort=False, as_index=False).agg(
        number=("name", "size"),
        weights_mib=("weight_bytes", lambda sizes: sizes.sum() / MIB),
        layers=("layers", lambda names: ", ".join(dict.fromkeys(names))),
    )
    return grouped.assign(precision=label(one))[COLUMNS]
