"""The tables and figures of cards that benchmarks/regimes.py wrote on one machine.

    python benchmarks/speed_tables.py docs/results/h200-qwen-image-shape.json [...] [--html FILE]

prints markdown: each way alone as in the first article's Table 1, throughput by requests in flight,
where each overtakes BF16, and the advice drawn from all of it. ``--html`` writes the article's
Figures 2 to 4 as one page that needs no network.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.audits import Audit
from workbench.errors import ComparisonRefused
from workbench.eval.advice import advice
from workbench.eval.crossing import Crossing, crossing
from workbench.eval.speed import speed_table
from workbench.eval.speed_figures import latency_with_spread, memory_by_component
from workbench.eval.speed_parts import memory_parts, request_rows
from workbench.eval.throughput_figure import throughput_curves
from workbench.speed import Benchmark, BenchmarkSpec, LoadResult, RankMemory, RequestRow

GIB = 2**30
WAY = ["precision", "layout", "compiled", "attention_backend"]


def main() -> None:
    """Print, and write the page if asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cards", type=Path, nargs="+")
    parser.add_argument("--html", type=Path)
    options = parser.parse_args()
    cards = [json.loads(file.read_text()) for file in options.cards]
    runs = [benchmark(run, card["provenance"]) for card in cards for run in card["runs"]]
    table = speed_table(runs)
    single, load = (table["num_inference_steps"] == n for n in steps(table))
    for title, one in {"Alone": alone(table[single], table), "Load": loaded(table[load])}.items():
        print(f"\n{title}\n\n{markdown(one)}")
    crossings = list(overtaking([run for run, kept in zip(runs, load, strict=True) if kept]))
    print("\n" + "\n".join(map(str, crossings)) + f"\n\n{advice(runs)}")
    if options.html:
        write_page(runs, crossings, options.html)


def benchmark(run: dict[str, Any], provenance: dict[str, Any]) -> Benchmark:
    """A run of a card; its audit names no layers, its requests no stages."""
    spec = BenchmarkSpec(**run["spec"])
    workload, precision = spec.workload, spec.launch.precision
    facts = {"prompt": workload.prompts.prompts[0], "stage_durations_s": {}, "pictures": 1}

    def rows(name: str) -> tuple[RequestRow, ...]:
        return tuple(
            RequestRow(**facts, **dict(zip(run["columns"], row, strict=True))) for row in run[name]
        )

    audit = Audit(
        requested=precision,
        verdict=run["verdict"],
        layers=(),
        platform="cuda",
        attention_backend=run["attention_backend"],
        world_sizes={"world": len(run["memory"])},
        weight_bytes=run["memory"][0]["weights"],
    )
    kept = ("cold_s", "stages_s", "load_s", "checkpoint_bytes", "random_weights")
    return Benchmark(
        path=Path(run["key"]),
        spec=spec,
        audit=audit,
        result=LoadResult(workload=workload, precision=precision, rows=rows("rows")),
        warmups=rows("warmups"),
        batches={int(size): number for size, number in run["batches"].items()},
        memory=tuple(RankMemory(**rank) for rank in run["memory"]),
        provenance=provenance,
        **{name: run[name] for name in kept},
    )


def steps(table: pd.DataFrame) -> tuple[int, int]:
    """Denoising steps of the latency, and of a request under load."""
    return table["num_inference_steps"].max(), table["num_inference_steps"].min()


def overtaking(runs: Sequence[Benchmark]) -> Iterator[Crossing]:
    """Each precision on one device against BF16 there, where both were put under several loads."""
    here = [one for one in runs if one.spec.launch.parallelism.world_size == 1]
    base = [one for one in here if one.precision == "BF16"]
    for name in dict.fromkeys(one.precision for one in here):
        candidate = [one for one in here if one.precision == name]
        try:
            if name != "BF16" and len(candidate) > 1:
                yield crossing(base, candidate)
        except ComparisonRefused as error:
            print(error)


def alone(rows: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """A row a way, with the memory of its first load of one request at a time."""
    first = table[table["concurrency"] == 1].groupby(WAY).first()
    held = [first.loc[tuple(row), "reserved_peak_bytes"] for row in rows[WAY].to_numpy()]
    return pd.DataFrame(
        {
            **{name: rows[name] for name in ("precision", "layout", "attention_backend")},
            "compiled": rows["compiled"].map({True: "yes", False: "no"}),
            "latency, s": [_spread(row, "latency_s") for _, row in rows.iterrows()],
            "n": rows["requests"],
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
    wide = rows.assign(cell=cells).pivot_table(
        index=["precision", "layout"],
        columns="concurrency",
        values="cell",
        aggfunc="first",
        sort=False,
    )
    return wide.fillna("–").reset_index()


def markdown(table: pd.DataFrame) -> str:
    """A table of a markdown page."""
    lines = [table.columns, ["---"] * table.shape[1], *table.astype(str).to_numpy()]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def write_page(runs: Sequence[Benchmark], crossings: Sequence[Crossing], file: Path) -> None:
    """Memory and latency of one request at a time, and throughput of several, on one device."""
    here = [one for one in runs if one.spec.launch.parallelism.world_size == 1]
    table = speed_table(here)
    most, least = steps(table)
    single = table["num_inference_steps"] == most
    one_by_one = (table["num_inference_steps"] == least) & (table["concurrency"] == 1)
    figures = [
        memory_by_component(memory_parts(_of(here, one_by_one))),
        latency_with_spread(table[single], request_rows(_of(here, single))),
    ]
    load = table[table["num_inference_steps"] == least]
    if load["concurrency"].nunique() > 1:
        figures.append(throughput_curves(load, crossings=crossings))
    parts = [
        figure.to_html(full_html=False, include_plotlyjs=number == 0)
        for number, figure in enumerate(figures)
    ]
    file.write_text("<!doctype html><meta charset='utf-8'>" + "".join(parts))


def _of(runs: Sequence[Benchmark], kept: pd.Series) -> list[Benchmark]:
    return [one for one, keep in zip(runs, kept, strict=True) if keep]


def _spread(row: pd.Series, name: str) -> str:
    return f"{row[name]:.2f} [{row[f'{name}_low']:.2f}, {row[f'{name}_high']:.2f}]"


if __name__ == "__main__":
    main()
