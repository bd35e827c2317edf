"""Published cards of speed: read, merged and drawn again, from docs/results as they lie."""

import importlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from workbench.errors import StoreError
from workbench.eval.speed import speed_table

ROOT = Path(__file__).parents[1]
CARDS = sorted((ROOT / "docs" / "results").glob("*-shape.json"))
QWEN = ROOT / "docs" / "results" / "h200-qwen-image-shape.json"
FLUX = QWEN.with_name("h200-flux.1-dev-shape.json")


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


def cards():
    return importlib.import_module("speed_cards")


def pages():
    return importlib.import_module("speed_page")


def read(file):
    return json.loads(file.read_text())


def runs_of(card):
    return [cards().benchmark(run, card["provenance"]) for run in card["runs"]]


def step_cards(card):
    """As they were before they were published: one a precision, of a model in a local folder."""
    names = dict.fromkeys(row["precision"] for row in card["rows"])
    for number, name in enumerate(names):
        kept = [i for i, row in enumerate(card["rows"]) if row["precision"] == name]
        step = {**card, **{part: [card[part][i] for i in kept] for part in ("rows", "runs")}}
        step["provenance"] = {**card["provenance"], "created": f"2026-11-30T0{number}:00:00"}
        named = json.dumps(step).replace('"Qwen-Image shape"', '"/tmp/shapes/Qwen-Image"')
        yield json.loads(named)


@pytest.mark.parametrize("file", CARDS, ids=lambda file: file.stem)
def test_a_published_card_stays_as_it_is(file):
    card = read(file)
    again = cards().merged([card])
    assert again["rows"] == card["rows"]
    assert [{**run, "provenance": None} for run in again["runs"]] == [
        {**run, "provenance": None} for run in card["runs"]
    ]
    assert again == cards().merged([again])


@pytest.mark.parametrize("file", CARDS, ids=lambda file: file.stem)
def test_what_is_read_back_has_the_numbers_of_its_rows(file):
    card = read(file)
    table = speed_table(runs_of(card))
    for name in ("latency_s", "pictures_per_s", "mean_batch", "reserved_peak_bytes", "requests"):
        np.testing.assert_allclose(table[name], [row[name] for row in card["rows"]])


def test_step_cards_become_one_with_the_provenance_of_each_and_no_local_folder():
    card, steps = read(QWEN), list(step_cards(read(QWEN)))
    assert len(steps) == 5
    whole = cards().merged(steps)
    assert "/tmp/" not in json.dumps(whole)
    assert json.dumps(whole) == json.dumps(cards().merged(list(step_cards(card))))

    def by_key(rows):
        return {row["key"]: {**row, "provenance": None} for row in rows}

    for part in ("rows", "runs"):
        assert by_key(whole[part]) == by_key(card[part])
    made = {run["key"]: run["provenance"]["created"] for run in whole["runs"]}
    assert made == {
        run["key"]: one["provenance"]["created"] for one in steps for run in one["runs"]
    }


def test_a_run_in_two_cards_is_taken_once_and_with_other_numbers_refused():
    card = read(QWEN)
    assert len(cards().merged([card, card])["runs"]) == len(card["runs"])
    other = read(QWEN)
    other["runs"][0]["rows"][0][2] += 1.0
    with pytest.raises(StoreError, match=r"79152a31eae3 is in two cards .*leave one"):
        cards().merged([card, other])


def test_runs_on_several_devices_have_a_section_beside_the_same_on_one(tmp_path):
    card = read(QWEN)
    found = dict(pages().sections(runs_of(card), ()))
    assert list(found) == ["One device", "Several devices"]
    memory, latency, throughput = found["Several devices"]
    bars = {name for trace in memory.data for name in trace.x}
    assert {"BF16, CFG=2", "FP8, TP=2", "W4A16, one device"} <= bars
    assert "BF16, CFG=2" in latency.data[0].x
    assert "W4A16, TP=2" in {trace.name for trace in throughput.data}
    one, again = tmp_path / "one.html", tmp_path / "again.html"
    for file in (one, again):
        pages().write_page(list(pages().sections(runs_of(card), ())), file)
    assert one.read_bytes() == again.read_bytes()
    assert '"displayModeBar": false' in one.read_text()


KERNELS = {
    "precision": "BF16", "layout": "one device", "compiled": False, "wall_s": 2.0, "idle": 0.25,
    "random_weights": True, "reference_kernels": False,
    "shares": {"GEMM": 0.5, "attention": 0.25}, "longest": [],
}  # fmt: skip


def test_where_the_time_goes_is_in_the_table_and_on_the_page():
    tables = importlib.import_module("speed_tables")
    row = tables.time_shares([KERNELS, {**KERNELS, "compiled": True, "shares": {"GEMM": 0.7}}])
    assert tables.markdown(row).splitlines()[2:] == [
        "| BF16, eager | 2.0 | 50% | 25% | 25% |",
        "| BF16, compiled | 2.0 | 70% | – | 25% |",
    ]
    parts = pages().kernel_parts([KERNELS, {**KERNELS, "layout": "TP=2"}])
    assert set(parts["precision"]) == {"BF16, one device, eager", "BF16, TP=2, eager"}
    found = dict(pages().sections(runs_of(read(CARDS[-1])), (), [KERNELS]))
    (figure,) = found["Where the time goes"]
    assert "random weights" in figure.layout.title.subtitle.text


def test_compiled_and_eager_runs_are_told_apart_under_load():
    tables = importlib.import_module("speed_tables")
    runs = runs_of(read(FLUX))
    table = speed_table(runs)
    least = table["num_inference_steps"].min()
    rows = table[table["num_inference_steps"] == least]
    wide = tables.loaded(rows).set_index(["precision", "compiled"])
    at_8 = rows[(rows["precision"] == "BF16") & (rows["concurrency"] == 8)]
    for told, one in zip(("no", "yes"), at_8.sort_values("compiled").itertuples(), strict=True):
        assert wide.loc[("BF16", told), 8].startswith(f"{one.pictures_per_s:.2f} [")
    assert wide.loc[("BF16", "yes"), 4] == "–"
    eager, compiled = tables.by_way(
        [run for run in runs if run.spec.workload.sampling.num_inference_steps == least]
    )
    assert {one.spec.launch.enforce_eager for one in eager} == {True}
    assert {one.candidate for one in tables.overtaking(eager)} == {
        one.precision for one in eager
    } - {"BF16"}
    assert list(tables.overtaking(compiled)) == []  # one load each


def test_curves_of_one_precision_differ_in_dash_and_marker():
    (throughput,) = dict(pages().sections(runs_of(read(FLUX)), ()))["One device"][2:]
    looks = {trace.name: (trace.line, trace.marker) for trace in throughput.data if trace.name}
    (eager, circle), (compiled, diamond) = looks["FP8, eager"], looks["FP8, compiled"]
    assert eager.color == compiled.color
    assert (eager.dash, compiled.dash) == ("solid", "dash")
    assert (circle.symbol, diamond.symbol) == ("circle", "diamond")


def test_a_load_against_no_bf16_is_said(capsys):
    tables = importlib.import_module("speed_tables")
    fp8 = [one for one in runs_of(read(QWEN)) if one.precision == "FP8"]
    (way,) = tables.by_way([one for one in fp8 if one.spec.launch.enforce_eager][:4])
    assert list(tables.overtaking(way)) == []
    assert capsys.readouterr().out.strip()


@pytest.mark.skipif(not any(map(shutil.which, ("chromium", "google-chrome"))), reason="no browser")
def test_the_picture_shows_the_whole_page(tmp_path):
    found = pages().sections(runs_of(read(CARDS[-1])), ())
    file = tmp_path / "page.png"
    pages().write_picture(found, file)
    with Image.open(file) as picture:
        assert picture.width == pages().WIDTH
        pixels = np.asarray(picture.convert("RGB"))
    foot = pixels[-400:]  # the last figure reaches to the end
    assert (foot != 255).any()
