"""Tables of a report over all candidates, as people read them."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

import pandas as pd

from workbench.eval.candidates import pair_table
from workbench.eval.census import census
from workbench.eval.comparison import Comparison
from workbench.eval.figure_style import with_unit
from workbench.eval.media import Html
from workbench.eval.metric_table import Metric
from workbench.eval.ordering import fidelity_orders, time_note
from workbench.eval.styling import decibels
from workbench.eval.temporal_metrics import KNOWN, TEMPORAL
from workbench.records import GenerationSet

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

_OF_FRAMES = ("psnr_db", "ssim", "flip", "high_frequency_error", "relative_l2")
_NEAR_ONE = ("ssim", "ms_ssim", "cosine")  # most pairs differ in the third digit
_FACTS = ("matched_share", "shift_found")
_STYLES = [
    {"selector": "", "props": "font-size: 12px; margin-bottom: 1.5em"},
    {"selector": "caption", "props": "caption-side: bottom; text-align: left; padding-top: .5em"},
    {"selector": "th, td", "props": "text-align: left; padding: .3em .5em"},
]
_UNFOLDING = "<details><summary>all</summary>{}</details>"
_PROMPT = {"min-width": "12em", "max-width": "20em", "white-space": "normal"}


def order_table(comparisons: Iterable[Comparison]) -> Styler:
    """The precisions from closest to farthest, by PSNR; of videos by flicker and jitter too.

    Args:
        comparisons: one a candidate, against one reference; see
            :func:`~workbench.eval.ordering.fidelity_orders`.
    """
    orders = fidelity_orders(comparisons)
    starts = orders["metric"] != orders["metric"].shift()
    heads = orders["metric"].map(lambda key: _head(KNOWN[key])).where(starts, "")
    medians = orders[["metric", "median"]].itertuples(index=False)
    shown = pd.DataFrame(
        {
            "by": heads,
            "precision": orders["precision"],
            "median": [_value(name, value) for name, value in medians],
            "pairs": [_counted(row.n, row.left_out) for row in orders.itertuples()],
            "closer than the next one in": orders["closer_than_next"],
        }
    )
    rule = starts.map({True: "border-top: 2px solid #999", False: ""})
    return _styled(shown, orders.attrs["time_note"]).apply(lambda column: rule, axis=0)


def every_pair(comparisons: Iterable[Comparison]) -> Html:
    """Every pair of every candidate, worst first; of videos a second table, over time.

    Args:
        comparisons: one a candidate, against one reference.
    """
    every = list(comparisons)
    table = pair_table(every).assign(identical=[said for one in every for said in _same(one)])
    frames = [name for name in _OF_FRAMES if name in table]
    tables = [_pairs(table, frames, ["first_step_outside", "identical"], "")]
    if over_time := [name for name in TEMPORAL if name in table]:
        facts = [name for name in _FACTS if name in table]
        note = (
            f"Worst first by {KNOWN[over_time[0]].title}; all 0 is the reference itself. A dash: "
            "could not be told."
        )
        tables.append(_pairs(table, [*over_time, *facts], [], note))
    elif note := time_note(every):
        tables[0].set_caption(escape(note))
    return Html("\n".join(one.to_html() for one in tables))


def what_ran(sets: Iterable[GenerationSet]) -> Styler:
    """:func:`~workbench.eval.census.census` of several sets, narrow enough for a page.

    Names of layers unfold by a click.
    """
    table = census(sets)
    shown = {"weights_mib": "{:.2f}", "weight_error": "{:.3g}", "layers": _UNFOLDING}
    return (
        _styled(table, "")
        .format(shown, escape="html", na_rep="–")
        .format_index({name: _breakable(name) for name in table}.get, axis=1)
        .set_properties(subset=["reason"], **{"min-width": "8em"})
        .set_properties(subset=["layers"], **{"overflow-wrap": "anywhere"})
    )


def _pairs(table: pd.DataFrame, scores: list[str], others: list[str], note: str) -> Styler:
    """Rows ordered by the first score, the farthest first, those without a value at the top."""
    ordered = table.sort_values(
        scores[0], key=KNOWN[scores[0]].farness, ascending=False, na_position="first", kind="stable"
    )
    whose = ["precision", "prompt", "seed"]
    cells = {name: [_value(name, value) for value in ordered[name]] for name in scores}
    rest = {name: ordered[name].astype(object).where(ordered[name].notna(), "–") for name in others}
    shown = pd.DataFrame({**ordered[whose].reset_index(drop=True).to_dict("series"), **cells})
    shown = shown.assign(**{name: list(values) for name, values in rest.items()})
    heads = {name: _breakable(name) for name in shown}
    styled = _styled(shown, note).format_index(heads.get, axis=1)
    return styled.set_properties(subset=["prompt"], **_PROMPT)


def _same(one: Comparison) -> list[str]:
    """Of each pair whether it is identical; of a video how many frames are."""
    frames = [one.frames(row)["identical"] for row in range(len(one.pairs))]
    partly = [f"{same.sum()} of {len(same)} frames" if same.any() else "no" for same in frames]
    return ["yes" if same.all() else said for same, said in zip(frames, partly, strict=True)]


def _styled(table: pd.DataFrame, note: str) -> Styler:
    styled = table.style.format(escape="html").hide(axis="index").set_table_styles(_STYLES)
    return styled.set_caption(escape(note)) if note else styled


def _breakable(head: str) -> str:
    return head.replace("_", "_<wbr>")


def _head(metric: Metric) -> str:
    return f"{with_unit(metric.title, metric.unit)}; {metric.closer}"


def _counted(n: int, left_out: int) -> str:
    return f"{n - left_out} of {n}" if left_out else f"{n}"


def _value(name: str, value: float) -> str:
    if pd.isna(value):
        return "–"
    if name == "psnr_db":
        return decibels(value)
    if value == float("inf"):
        return "∞"
    return f"{value:.4f}" if name in _NEAR_ONE else f"{value:.3g}"
