"""A summary as people read it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import pandas as pd

from workbench.eval.units import memory_unit

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

TEXT_COLUMNS = ("precision", "against floor", "audit, share of linears quantized", "kernel")
_OVER_TIME = {"flicker_error": "flicker, of white ↓", "jitter": "jitter, px a frame ↓"}
LEGEND = (
    "PSNR: median (its 95 % interval), and the worst pair; latency: median [fastest – slowest]; "
    "↑ higher is better, ↓ lower is better."
)


def style(summary: pd.DataFrame) -> Styler:
    """A summary with units, arrows to the better side, and notes: times that mean nothing, videos.

    Args:
        summary: as made by :func:`workbench.eval.summary.summary`.
    """
    table = _readable(summary)
    infinite = "∞: identical." if table["PSNR, dB ↑"].str.contains("∞").any() else ""
    said = (summary.attrs.get(name, "") for name in ("time_note", "speed_note"))
    notes = [LEGEND, infinite, *said]
    text = [table.columns.get_loc(name) for name in TEXT_COLUMNS]
    aligned = [{"selector": f".col{i}", "props": "text-align: left"} for i in text]
    return (
        table.style.format(escape="html")
        .hide(axis="index")
        .set_caption(escape(" ".join(filter(None, notes))))
        .set_table_styles(
            [
                {"selector": "", "props": "font-size: 12px"},
                {
                    "selector": "caption",
                    "props": "caption-side: bottom; text-align: left; padding-top: .5em",
                },
                {
                    "selector": "th, td",
                    "props": "text-align: right; padding: .3em .4em; white-space: nowrap",
                },
                {"selector": f"th, td.col{text[-2]}", "props": "white-space: normal"},
                {
                    "selector": f"td.col{text[-1]}",
                    "props": "white-space: normal; overflow-wrap: anywhere; min-width: 9em",
                },
                *aligned,
            ]
        )
    )


def _readable(table: pd.DataFrame) -> pd.DataFrame:
    memory, memory_size = memory_unit(table["peak_memory_bytes"].max())
    disk, disk_size = memory_unit(table["checkpoint_bytes"].max())
    in_memory = table[["peak_memory_bytes", "weight_bytes"]] / memory_size
    on_disk = table[["checkpoint_bytes", "transformer_bytes"]] / disk_size
    return pd.DataFrame(
        {
            "precision": table["precision"],
            "PSNR, dB ↑": [_psnr(row) for row in table.itertuples()],
            "SSIM ↑": [_four_digits(value) for value in table["ssim"]],
            "FLIP ↓": [_four_digits(value) for value in table["flip"]],
            **{
                head: table[name].map("{:.3g}".format, na_action="ignore").fillna("")
                for name, head in _OVER_TIME.items()
                if name in table
            },
            "pairs": table["n"].map(str, na_action="ignore").fillna(""),
            "against floor": table["against_floor"],
            "latency, s ↓": [
                f"{row.latency_s:.2f} [{row.latency_s_min:.2f} – {row.latency_s_max:.2f}]"
                for row in table.itertuples()
            ],
            "speed ↑": table["speed_ratio"].map("{:.2f} x".format),
            f"peak memory, {memory} ↓": in_memory["peak_memory_bytes"].map("{:.1f}".format),
            f"loaded weights, {memory} ↓": in_memory["weight_bytes"].map("{:.1f}".format),
            f"on disk (transformer), {disk} ↓": [
                f"{whole:.1f} ({part:.1f})" for whole, part in on_disk.values
            ],
            "audit, share of linears quantized": table["verdict"]
            + table["coverage"].map(", {:.0%}".format),
            "kernel": table["kernel"],
        }
    )


def _four_digits(value: float) -> str:
    return "" if pd.isna(value) else f"{value:.4f}"


def _psnr(row: Any) -> str:
    if pd.isna(row.n):
        return ""  # the reference itself
    if row.identical == row.n:
        return "identical"
    if pd.isna(row.psnr_db):
        return "–"  # not asked for
    median, low, high, least = (
        decibels(getattr(row, f"psnr_db{part}")) for part in ("", "_low", "_high", "_min")
    )
    within = "" if pd.isna(row.psnr_db_low) else f" ({low} – {high})"
    return f"{median}{within}, {least}"


def decibels(value: float) -> str:
    """One digit; infinite, as PSNR of identical pictures is, as a sign."""
    return "∞" if value == float("inf") else f"{value:.1f}"
