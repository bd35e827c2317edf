"""What a benchmark is called in figures and sentences, and what must be said beside its numbers."""

from __future__ import annotations

import pandas as pd

from workbench.eval.speed_notes import WAITED_S
from workbench.eval.speed_spread import CERTAIN

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
        times: whether times are shown, which a reference kernel makes meaningless, and which
            failed requests and the wait for company are to be known of.
    """
    said = []
    if random := _which(table, "random_weights"):
        said.append(f"random weights{random}".rstrip())
    if times and (reference := _which(table, "reference_kernels")):
        said.append(f"reference kernels, whose times mean nothing{reference}".rstrip())
    if times:
        said += filter(None, (failures(table), waits(table)))
    return "; ".join(said)


def failures(table: pd.DataFrame) -> str:
    """``requests that failed, in no number: 2 (FP8)``; empty if none did."""
    failed = table[table["failed"] > 0] if "failed" in table else table.iloc[:0]
    if failed.empty:
        return ""
    names = ", ".join(dict.fromkeys(map(str, failed["precision"])))
    return f"requests that failed, in no number: {failed['failed'].sum()} ({names})"


def waits(table: pd.DataFrame) -> str:
    """What a request alone waited for company before it was drawn; empty if none did.

    Args:
        table: columns precision, concurrency, queue_wait_s.
    """
    if not {"queue_wait_s", "concurrency"} <= set(table):
        return ""
    rows = table[(table["concurrency"] == 1) & (table["queue_wait_s"] > WAITED_S)]
    if rows.empty:
        return ""
    least, most = (
        f"{1000 * ms:.0f}" for ms in (rows["queue_wait_s"].min(), rows["queue_wait_s"].max())
    )
    span = least if least == most else f"{least} to {most}"
    names = ", ".join(dict.fromkeys(map(str, rows["precision"])))
    return (
        f"at 1 in flight latency holds {span} ms of the scheduler's wait for company ({names}; see "
        "request_batch_max_wait_ms)"
    )


def spread_words(table: pd.DataFrame) -> str:
    """What low and high of these rows are: a 95 % interval, the range of few rounds, or both.

    Args:
        table: rows of :func:`workbench.eval.speed.speed_table`.
    """
    enough = table["rounds"] >= CERTAIN
    few = f"range of fewer than {CERTAIN} rounds, no 95 % interval"
    if enough.all():
        return "95 % interval"
    return (
        few if not enough.any() else f"95 % interval, or with fewer than {CERTAIN} rounds the range"
    )


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
