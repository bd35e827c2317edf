"""What a benchmark is called in figures and sentences, and what must be said beside its numbers."""

from __future__ import annotations

import pandas as pd

_SAID = {
    "layout": "{}".format,
    "compiled": lambda value: "compiled" if value else "eager",
    "attention_backend": "{}".format,
    "size": "{}".format,
    "num_inference_steps": "{} steps".format,
    "model": "{}".format,
}


def run_labels(table: pd.DataFrame) -> pd.Series:
    """Name of each row: its precision, and whatever else of its conditions varies in the table.

    Args:
        table: rows of :func:`workbench.eval.speed.speed_table`; columns of conditions may be
            missing.

    Returns:
        ``FP8``, or ``FP8, TP=2, compiled``; index as in ``table``.
    """
    names = table["precision"].astype(str)
    for column, said in _SAID.items():
        if column in table and table[column].nunique() > 1:
            names = names + ", " + table[column].map(said)
    return names


def cautions(table: pd.DataFrame, *, times: bool = True) -> str:
    """What a figure of these rows must say below its title; empty if there is nothing.

    Args:
        table: rows of :func:`workbench.eval.speed.speed_table`; columns that it lacks are quiet.
        times: whether times are shown, which a reference kernel makes meaningless.
    """
    said = []
    if random := _which(table, "random_weights"):
        said.append(f"random weights{random}".rstrip())
    if times and (reference := _which(table, "reference_kernels")):
        said.append(f"reference kernels, whose times mean nothing{reference}".rstrip())
    return "; ".join(said)


def counted(table: pd.DataFrame) -> str:
    """What the rows of a speed table count: ``pictures``, ``clips``, or ``pictures or clips``."""
    found = set(table["drawn"]) if "drawn" in table else {"pictures"}
    return " or ".join(sorted(found, reverse=True))


def noted(*parts: str) -> str:
    """The parts of a note that are not empty, joined."""
    return "; ".join(part for part in parts if part)


def _which(table: pd.DataFrame, column: str) -> str:
    """The precisions that are marked: empty for none, a blank where it is all of them."""
    marked = table[table[column].eq(True)] if column in table else table.iloc[:0]
    if marked.empty:
        return ""
    names = dict.fromkeys(map(str, marked["precision"]))
    return " " if len(marked) == len(table) else f" ({', '.join(names)})"
