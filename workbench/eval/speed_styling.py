"""A table of speeds as people read it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import pandas as pd

from workbench.eval.speed_labels import cautions, counted, run_labels, spread_words
from workbench.eval.units import memory_unit

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

LEGEND = (
    "latency and throughput: measured ({spread}); rounds: requests that are in flight together end "
    "together; engine, queue: medians of the engine's time for a request and of the wait in it; "
    "memory of all ranks together; ↑ higher is better, ↓ lower is better."
)
_NOTHING = "–"
_SPLIT = {"engine_s": "engine, s", "queue_wait_s": "queue, s"}


def style_speed(table: pd.DataFrame) -> Styler:
    """A table of :func:`workbench.eval.speed.speed_table` with units, arrows and cautions.

    Columns of it that are numbers by another name (such as a fidelity that was merged in) are kept,
    to the right.
    """
    caution = cautions(table)
    said = f"{LEGEND.format(spread=spread_words(table))} {caution[:1].upper()}{caution[1:]}".strip()
    return (
        _readable(table)
        .style.format(escape="html", precision=3, na_rep=_NOTHING)
        .hide(axis="index")
        .set_caption(escape(said, quote=False))
        .set_table_styles(
            [
                {
                    "selector": "caption",
                    "props": "caption-side: bottom; text-align: left; padding-top: .5em",
                },
                {"selector": "th, td", "props": "text-align: right; padding: .3em .5em"},
                {"selector": ".col0", "props": "text-align: left"},
            ]
        )
    )


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    memory, size = memory_unit(table["reserved_peak_bytes"].max())
    disk, disk_size = memory_unit(table["checkpoint_bytes"].max())
    what = counted(table)
    return pd.DataFrame(
        {
            "run": run_labels(table),
            "in flight": table["concurrency"],
            "requests": [_answered(row) for row in table.to_dict("records")],
            "rounds": table["rounds"],
            "latency, s ↓": [_within(row, "latency_s") for row in table.to_dict("records")],
            "90 % below, s": table["latency_s_p90"],
            **{head: table[name] for name, head in _SPLIT.items() if table[name].notna().any()},
            "first, s": table["cold_s"],
            f"{what} / s ↑": [_within(row, "pictures_per_s") for row in table.to_dict("records")],
            f"{what} a pass": table["mean_batch"],
            f"weights, {memory} ↓": table["weight_bytes"] / size,
            f"peak, {memory} ↓": table["reserved_peak_bytes"] / size,
            f"on disk, {disk} ↓": table["checkpoint_bytes"] / disk_size,
            **{name: table[name] for name in table if name not in _KNOWN},
        }
    )


def _answered(row: dict[str, Any]) -> str:
    whole = row["requests"] + row["failed"]
    return f"{row['requests']} of {whole}" if row["failed"] else f"{row['requests']}"


def _within(row: dict[str, Any], name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    within = "" if pd.isna(low) else f" ({low:.3g} – {high:.3g})"
    return f"{row[name]:.3g}{within}"


_KNOWN = {
    "model", "precision", "layout", "compiled", "attention_backend", "device", "size",
    "num_inference_steps", "concurrency", "requests", "failed", "rounds", "latency_s",
    "latency_s_low", "latency_s_high", "latency_s_p90", "engine_s", "queue_wait_s",
    "latency_less_wait_s", "cold_s", "load_s",
    "pictures_per_s", "pictures_per_s_low", "pictures_per_s_high", "drawn", "mean_batch",
    "weight_bytes", "load_peak_bytes", "allocated_peak_bytes", "reserved_peak_bytes",
    "device_used_bytes", "checkpoint_bytes", "random_weights", "reference_kernels", "key",
}  # fmt: skip
"""Columns of a speed table; those that are not shown above would only repeat."""
