"""The tables, figures and sentences of cards that benchmarks/regimes.py wrote on one machine.

    python benchmarks/speed_tables.py docs/results/h200-qwen-image-shape.json [...] [--html FILE]
    python benchmarks/speed_tables.py OUT/qwen.json OUT/qwen-tp2.json --card FILE --png FILE

prints markdown: each way alone as in the first article's Table 1, throughput by requests in flight,
where each overtakes BF16, the advice drawn from all of it, and where the time goes. ``--html``
writes the article's Figures 2 to 4 as one page that needs no network, ``--png`` the same as a
picture (by Chromium), and ``--card`` all given cards as one, to be published.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import speed_cards
import speed_page

from workbench import store
from workbench.errors import ComparisonRefused
from workbench.eval.advice import advice, rests_on
from workbench.eval.crossing import Crossing, crossing
from workbench.eval.speed import speed_table
from workbench.eval.speed_spread import CERTAIN
from workbench.speed import Benchmark

GIB = 2**30


def main() -> None:
    """Print, and write what is asked for."""
    options = _options()
    card = speed_cards.merged(json.loads(file.read_text()) for file in options.cards)
    if options.card:
        store.write_json(options.card, card)
    runs = [speed_cards.benchmark(run, card["provenance"]) for run in card["runs"]]
    table = speed_table(runs)
    most, least = speed_page.steps(table)
    single, load = table["num_inference_steps"] == most, table["num_inference_steps"] == least
    for title, one in {"Alone": alone(table[single], table), "Load": loaded(table[load])}.items():
        print(f"\n{title}\n\n{markdown(one)}")
    print(f"\n[]: 95 % interval, or where fewer than {CERTAIN} rounds of requests ran their range.")
    crossings = said([run for run, kept in zip(runs, load, strict=True) if kept])
    print(f"\n{advice(runs)}")
    if card["kernel_times"]:
        print(f"\nWhere the time goes\n\n{markdown(time_shares(card['kernel_times']))}")
    if options.html or options.png:
        sections = speed_page.sections(runs, crossings, card["kernel_times"])
        if options.html:
            speed_page.write_page(sections, options.html)
        if options.png:
            speed_page.write_picture(sections, options.png)


def said(runs: Sequence[Benchmark]) -> list[Crossing]:
    """Where each precision overtakes BF16, printed under what that rests on."""
    crossings = []
    for way in by_way(runs):
        found = list(overtaking(way))
        if found:
            base = [one for one in way if one.precision == "BF16"]
            print("\n".join(["", rests_on(base), *(f"{one}." for one in found)]))
        crossings += found
    return crossings


def by_way(runs: Sequence[Benchmark]) -> Iterator[list[Benchmark]]:
    """The runs on one device, those together that are alike in compiling and attention."""
    ways: dict[tuple[Any, ...], list[Benchmark]] = {}
    for one in runs:
        launch = one.spec.launch
        if launch.parallelism.world_size == 1:
            way = (launch.enforce_eager, one.audit.attention_backend)
            ways.setdefault(way, []).append(one)
    yield from ways.values()


def overtaking(runs: Sequence[Benchmark]) -> Iterator[Crossing]:
    """Each precision that was put under several loads against BF16, of runs of one way."""
    precisions: dict[str, list[Benchmark]] = {}
    for one in runs:
        precisions.setdefault(one.precision, []).append(one)
    base = precisions.pop("BF16", [])
    for candidate in precisions.values():
        if len(candidate) > 1:
            try:
                yield crossing(base, candidate)
            except ComparisonRefused as error:
                print(error)


def alone(rows: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """A row a way, with the memory of its first load of one request at a time."""
    first = table[table["concurrency"] == 1].groupby(speed_page.WAY).first()
    held = [first.loc[tuple(row), "reserved_peak_bytes"] for row in rows[speed_page.WAY].to_numpy()]
    return pd.DataFrame(
        {
            **{name: rows[name] for name in ("precision", "layout", "attention_backend")},
            "compiled": _yes_no(rows["compiled"]),
            "latency, s": [_spread(row, "latency_s") for _, row in rows.iterrows()],
            "n": rows["requests"],
            "of it queue, s": rows["queue_wait_s"].map("{:.3f}".format),
            "weights loaded, GiB": (rows["weight_bytes"] / GIB).round(1),
            "reserved peak, GiB": [round(size / GIB, 1) for size in held],
            "checkpoint, GiB": (rows["checkpoint_bytes"] / GIB).round(1),
        }
    )


def loaded(rows: pd.DataFrame) -> pd.DataFrame:
    """Pictures a second by way and requests in flight, with the batch that ran."""
    cells = [
        f"{_spread(row, 'pictures_per_s')}, batch {row['mean_batch']:.1f}"
        for _, row in rows.iterrows()
    ]
    wide = rows.assign(cell=cells, compiled=_yes_no(rows["compiled"])).pivot_table(
        index=speed_page.WAY,
        columns="concurrency",
        values="cell",
        aggfunc="first",
        sort=False,
    )
    return wide.fillna("–").reset_index()


def time_shares(kernel_times: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Share of the wall time by kind of kernel, and idle: a row a watched request."""
    parts = speed_page.kernel_parts(kernel_times)
    keys = ["precision", "wall_s"]
    wide = parts.pivot_table(index=keys, columns="kind", values="share", sort=False)
    said = wide.map("{:.0%}".format, na_action="ignore").fillna("–")
    return said.reset_index().rename(columns={"precision": "run", "wall_s": "wall, s"}).round(3)


def markdown(table: pd.DataFrame) -> str:
    """A table of a markdown page."""
    lines = [table.columns, ["---"] * table.shape[1], *table.astype(str).to_numpy()]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _yes_no(flags: pd.Series) -> pd.Series:
    return flags.map({True: "yes", False: "no"})


def _spread(row: pd.Series, name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{row[name]:.2f}" + (f" [{low:.2f}, {high:.2f}]" if low == low else "")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cards", type=Path, nargs="+")
    for name in ("--card", "--html", "--png"):
        parser.add_argument(name, type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
