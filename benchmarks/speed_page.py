"""The article's Figures 2 to 4 of a card's runs: a page that needs no network, and its picture."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from PIL import Image

from workbench.errors import WorkbenchError
from workbench.eval.crossing import Crossing
from workbench.eval.speed import conditions, speed_table
from workbench.eval.speed_figures import kernel_bars, latency_with_spread, memory_by_component
from workbench.eval.speed_parts import memory_parts, request_rows
from workbench.eval.throughput_figure import throughput_curves
from workbench.speed import Benchmark

if TYPE_CHECKING:
    import plotly.graph_objects as go

WAY = ["precision", "layout", "compiled", "attention_backend"]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEADING = 1100, 60  # pixels; of the page, of a section's heading with its margins
Runs = Sequence[Benchmark]
Section = tuple[str, "list[go.Figure]"]
_STYLE = f"body{{margin:0;width:{WIDTH}px;background:#fff}}h2{{height:{HEADING}px;margin:0 80px;\
line-height:{HEADING}px;font:600 20px/{HEADING}px system-ui,sans-serif}}"


def steps(table: pd.DataFrame) -> tuple[int, int]:
    """Denoising steps of the latency, and of a request under load."""
    return table["num_inference_steps"].max(), table["num_inference_steps"].min()


def sections(
    runs: Runs, crossings: Sequence[Crossing], kernel_times: Sequence[dict[str, Any]] = ()
) -> list[Section]:
    """Figures of the runs on one device, and of those on several beside the same on one."""
    most, least = steps(speed_table(runs))
    here = [one for one in runs if one.spec.launch.parallelism.world_size == 1]
    split = [one for one in runs if one not in here]
    alike = {_but_layout(one) for one in split}
    beside = [one for one in here if _but_layout(one) in alike] + split
    found = [
        ("One device", list(_figures(here, crossings, most, least)) if here else []),
        ("Several devices", list(_figures(beside, (), most, least)) if split else []),
        ("Where the time goes", [kernel_bars(kernel_parts(kernel_times))] if kernel_times else []),
    ]
    return [(title, figures) for title, figures in found if figures]


def kernel_parts(kernel_times: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Shares of a card's ``kernel_times``, as ``kernel_bars`` takes them."""
    rows = []
    several = len({one["layout"] for one in kernel_times}) > 1
    for one in kernel_times:
        layout = (one["layout"],) if several else ()
        told = (one["precision"], *layout, "compiled" if one["compiled"] else "eager")
        marks = {name: one[name] for name in ("wall_s", "random_weights", "reference_kernels")}
        facts = {"precision": ", ".join(told), **marks}
        shares = {**one["shares"], "idle": one["idle"]}
        rows += [{**facts, "kind": kind, "share": share} for kind, share in shares.items()]
    return pd.DataFrame(rows)


def write_page(found: Sequence[Section], file: Path) -> None:
    """All figures as one page, the same byte for byte from the same runs."""
    parts, number = [], 0
    for title, figures in found:
        parts.append(f"<h2>{escape(title)}</h2>")
        for figure in figures:
            parts.append(
                figure.to_html(
                    full_html=False,
                    include_plotlyjs=number == 0,
                    div_id=f"figure-{number}",
                    config={"displayModeBar": False},
                    default_width=f"{WIDTH}px",
                )
            )
            number += 1
    head = f"<!doctype html><meta charset='utf-8'><style>{_STYLE}</style>"
    file.write_text(head + "".join(parts), encoding="utf-8")


def write_picture(found: Sequence[Section], file: Path) -> None:
    """The page as PNG, by a browser without a window.

    Raises:
        WorkbenchError: no such browser here, or it drew nothing.
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise WorkbenchError(
            f"none of {', '.join(BROWSERS)} is here to draw {file}; install one, or write the page "
            "with --html"
        )
    height = sum(HEADING + sum(one.layout.height for one in figures) for _, figures in found)
    with tempfile.TemporaryDirectory() as folder:
        page, drawn = Path(folder) / "page.html", Path(folder) / "page.png"
        write_page(found, page)
        command = [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--virtual-time-budget=10000", f"--user-data-dir={folder}/profile",
            f"--window-size={WIDTH},{height}", f"--screenshot={drawn}", page.as_uri(),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        if not drawn.is_file():
            raise WorkbenchError(f"{browser} drew no picture: {done.stderr[-500:]}")
        with Image.open(drawn) as picture:
            picture.convert("RGB").quantize(256).save(file, format="PNG", optimize=True)


def _figures(
    runs: Runs, crossings: Sequence[Crossing], most: int, least: int
) -> Iterator[go.Figure]:
    """Memory of each way's first load, latency of one request at a time, throughput of several."""
    table = speed_table(runs)
    single = table["num_inference_steps"] == most
    load = table["num_inference_steps"] == least
    lone = table["concurrency"] == 1
    held = lone & ~table[lone].duplicated(WAY).reindex(table.index, fill_value=True)
    parts = memory_parts(_of(runs, held if held.any() else ~table.duplicated(WAY)))
    yield memory_by_component(parts.drop(columns="num_inference_steps"))
    if (single & lone).any():
        kept = single & lone
        yield latency_with_spread(table[kept], request_rows(_of(runs, kept)))
    several = table[load & (table["concurrency"] > 1)]
    if not several.empty:
        yield throughput_curves(_curves(table[load]), crossings=crossings)


def _curves(load: pd.DataFrame) -> pd.DataFrame:
    """Without the loads that only some layouts were put under, where there are several layouts."""
    if load["layout"].nunique() == 1:
        return load
    shared = set.intersection(
        *(set(rows["concurrency"]) for _, rows in load.groupby("layout", sort=False))
    )
    return load[load["concurrency"].isin(shared)] if shared else load


def _but_layout(one: Benchmark) -> tuple[Any, ...]:
    known = conditions(one)
    return one.precision, known["compiled"], known["attention_backend"], known["runtime"]


def _of(runs: Runs, kept: pd.Series) -> list[Benchmark]:
    return [one for one, keep in zip(runs, kept, strict=True) if keep]
