"""Figures of latency, memory, stages and throughput, from made-up benchmarks."""

import json

import numpy as np
import pandas as pd
import pytest
from made_benchmarks import MIB, curve, made

import workbench as wb
from workbench.errors import ComparisonRefused
from workbench.eval.crossing import crossing
from workbench.eval.figures import to_div
from workbench.eval.speed_figures import (
    kernel_bars,
    latency_with_spread,
    memory_by_component,
    stage_bars,
)
from workbench.eval.speed_labels import cautions, run_labels
from workbench.eval.speed_parts import (
    ABOVE,
    kernel_shares,
    layout_table,
    memory_parts,
    planned_parts,
    request_rows,
    stage_seconds,
)
from workbench.eval.speed_styling import style_speed
from workbench.eval.throughput_figure import throughput_curves
from workbench.serve.kernel_times import KINDS
from workbench.specs import Parallelism

TP2 = Parallelism(tensor_parallel_size=2)
BF16 = curve("BF16", {1: 1.0, 4: 1.0, 8: 1.0}, spread=0.01)
FP8 = curve("FP8", {1: 0.8, 4: 1.2, 8: 1.25}, spread=0.01)


def drawn(figure):
    return {trace.name: trace for trace in figure.data if trace.name}


def note(figure):
    return figure.layout.title.subtitle.text.replace("<br>", " ")


def kernels(idle=0.25):
    table = pd.DataFrame(
        {"kernel": ["a", "b", "c"], "kind": ["GEMM", "copy", "GEMM"], "share": [0.4, 0.15, 0.2]}
    )
    table.attrs.update(wall_s=2.0, idle=idle)
    return table


def test_memory_is_stacked_by_component_and_what_lies_above_is_on_top():
    figure = memory_by_component(memory_parts([made(peak_mib=1000), made("FP8", peak_mib=500)]))
    bars = drawn(figure)
    assert list(bars) == ["transformer", "vae", ABOVE]
    np.testing.assert_allclose(bars["transformer"].y, [500, 250])
    np.testing.assert_allclose(bars["vae"].y, [100, 50])
    np.testing.assert_allclose(bars[ABOVE].y, [400, 200])
    assert list(bars["vae"].x) == ["BF16", "FP8"]
    assert figure.layout.barmode == "stack"
    assert figure.layout.yaxis.title.text == "memory, MiB"
    assert [one.text for one in figure.layout.annotations] == ["1000", "500"]


def test_the_peak_while_loading_is_marked_where_it_is_known():
    parts = memory_parts([made(load_peak_mib=1200), made("FP8")])
    mark = drawn(memory_by_component(parts))["peak while loading"]
    assert (list(mark.x), list(mark.y)) == (["BF16"], [1200])
    assert "peak while loading" not in drawn(memory_by_component(memory_parts([made()])))


def test_ranks_are_added_up_or_shown_apart():
    parts = memory_parts([made(parallelism=TP2, peak_mib=1000, load_peak_mib=700)])
    together = drawn(memory_by_component(parts))
    np.testing.assert_allclose(together["transformer"].y, [500])
    np.testing.assert_allclose(together["peak while loading"].y, [1400])
    apart = drawn(memory_by_component(parts, by_rank=True))
    assert list(apart["transformer"].x) == ["BF16, rank 0", "BF16, rank 1"]
    np.testing.assert_allclose(apart["transformer"].y, [250, 250])


def test_weights_above_the_peak_leave_nothing_above_them():
    parts = memory_parts([made(peak_mib=0)])
    assert (parts["bytes"] == 0).all()


def test_a_plan_has_the_parts_of_its_fullest_rank():
    sized = wb.Sampling(num_inference_steps=2, height=128, width=128)
    plan = wb.plan(
        "embedded:qwen-image", gpus=2, gpu_memory_gib=4, device="cpu", sampling=sized
    ).table()
    parts = planned_parts(plan[plan["valid"]], precision="estimate")
    assert {"one device", "TP=2", "CFG=2"} <= set(parts["layout"])
    assert set(parts["part"]) == {"transformer", "text_encoder", "vae", ABOVE}
    totals = parts.groupby("layout")["bytes"].sum() / 2**30
    one, two = plan["memory_gib"][0], plan.set_index("layout")["memory_gib"]
    np.testing.assert_allclose(totals["one device"], one)
    np.testing.assert_allclose(totals["TP=2"], two["tensor_parallel_size=2"])
    measured = memory_parts([made(random_weights=True)])
    both = memory_by_component(pd.concat([parts, measured], ignore_index=True))
    assert list(drawn(both)["vae"].x)[-1] == "BF16, one device"
    assert note(both).endswith("random weights (BF16)")


def test_latency_is_a_bar_with_its_interval_and_a_dot_a_request():
    runs = [made(), made("FP8", [0.5, 0.7]), *curve("FP8", {4: 1.0})]
    figure = latency_with_spread(wb.speed_table(runs), request_rows(runs))
    bar, dots = drawn(figure)["median"], drawn(figure)["one request"]
    assert list(bar.x) == ["BF16", "FP8"]
    np.testing.assert_allclose(bar.y, [1.05, 0.6])
    np.testing.assert_allclose(sorted(dots.y), [0.5, 0.7, 0.9, 1.0, 1.1, 1.2])
    assert (np.array(bar.error_y.array) >= 0).all()
    assert "1 in flight" in note(figure)


def test_throughput_has_a_line_a_precision_a_band_and_its_end_in_words():
    figure = throughput_curves(wb.speed_table([*BF16, *FP8]))
    lines = drawn(figure)
    assert list(lines["FP8"].x) == [1, 4, 8]
    np.testing.assert_allclose(lines["FP8"].y, [0.8, 1.2, 1.25])
    assert [trace.fill for trace in figure.data].count("tonexty") == 2
    ends = [one.text for one in figure.layout.annotations]
    assert ends == ["1 BF16", "1.25 (+25%) FP8"]
    assert list(figure.layout.xaxis.ticktext) == ["1", "4", "8"]


def test_ends_that_lie_close_are_pushed_apart():
    table = wb.speed_table([*curve("BF16", {8: 1.0}), *curve("FP8", {8: 1.001})])
    first, second = (one.y for one in throughput_curves(table).layout.annotations)
    assert second - first > 0.05


def test_a_decided_crossing_is_a_line_with_its_band():
    found = crossing(BF16, FP8)
    figure = throughput_curves(wb.speed_table([*BF16, *FP8]), crossings=[found])
    band, line = figure.layout.shapes
    assert (band.x0, band.x1) == (found.low, found.high)
    assert line.x0 == line.x1 == found.at
    said = figure.layout.annotations[-1]
    assert said.text == f"FP8 overtakes at {found.at:.1f}"
    assert said.x == pytest.approx(np.log10(found.at))


def test_a_crossing_that_is_not_decided_is_named_and_not_drawn():
    noisy = [
        curve(name, rates, spread=0.2) for name, rates in (("BF16", {1: 1.0}), ("FP8", {1: 1.01}))
    ]
    found = crossing(*noisy)
    figure = throughput_curves(wb.speed_table([*noisy[0], *noisy[1]]), crossings=[found])
    assert figure.layout.shapes == ()
    assert "not decided: FP8" in note(figure)


def test_stages_are_stacked_and_the_rest_is_on_top():
    bars = drawn(stage_bars(stage_seconds([made(), made("FP8")])))
    assert list(bars) == ["text_encoder", "transformer", "vae.decode", "rest"]
    np.testing.assert_allclose(bars["transformer"].y, [0.6, 0.6])


def test_kernels_are_shares_by_kind_and_idle():
    shares = kernel_shares({"BF16": kernels(), "FP8": kernels(0.1)})
    bars = drawn(kernel_bars(shares))
    assert list(bars) == ["GEMM", "copy", "idle"]
    np.testing.assert_allclose(bars["GEMM"].y, [60, 60])
    np.testing.assert_allclose(bars["idle"].y, [25, 10])
    assert "BF16 2 s" in note(kernel_bars(shares))


def test_a_request_of_which_no_kernel_was_seen_is_named_and_not_called_idle():
    blind = kernels(idle=1.0).iloc[:0]
    figure = kernel_bars(kernel_shares({"BF16": blind, "FP8": kernels()}))
    assert list(drawn(figure)["idle"].x) == ["FP8"]
    assert "the profiler saw no kernel of BF16" in note(figure)
    assert note(kernel_bars(kernel_shares({"BF16": blind}))) == (
        "the profiler saw no kernel of BF16"
    )


def test_each_kind_of_kernel_has_a_colour_of_its_own():
    kinds = {kind for kind, _ in KINDS} | {"other", "idle"}
    shares = pd.DataFrame({"precision": "BF16", "kind": list(kinds), "share": 0.1, "wall_s": 1.0})
    assert len({bar.marker.color for bar in kernel_bars(shares).data}) == len(kinds)


def test_layouts_are_held_against_the_first():
    runs = [made(latencies=[2.0] * 4), made(latencies=[1.0] * 4, parallelism=TP2)]
    table = layout_table(runs)
    assert list(table["layout"]) == ["one device", "TP=2"]
    assert list(table["world_size"]) == list(table["speedup"]) == [1, 2]
    assert list(table["fullest_rank_bytes"]) == [1000 * MIB, 500 * MIB]
    with pytest.raises(ComparisonRefused, match="compiled"):
        layout_table([made(), made(parallelism=TP2, enforce_eager=False)])


@pytest.mark.parametrize(
    "figure_of",
    [
        lambda runs: memory_by_component(memory_parts(runs)),
        lambda runs: latency_with_spread(wb.speed_table(runs), request_rows(runs)),
        lambda runs: throughput_curves(wb.speed_table(runs)),
        lambda runs: stage_bars(stage_seconds(runs)),
        lambda runs: kernel_bars(
            kernel_shares({"BF16": kernels()}).assign(random_weights=runs[0].random_weights)
        ),
    ],
    ids=["memory", "latency", "throughput", "stages", "kernels"],
)
def test_every_figure_says_that_weights_are_random_and_shows_no_markup(figure_of):
    assert "random weights" in note(figure_of([made(random_weights=True)]))
    assert "random" not in note(figure_of([made()]))
    hostile = "<script>alert(1)</script>"
    figure = figure_of([made(hostile, stored=hostile)])
    assert "<script>alert" not in to_div(json.loads(figure.to_json()))


def test_what_varies_is_in_the_name():
    table = wb.speed_table([made(), made(parallelism=TP2), made("FP8", enforce_eager=False)])
    assert list(run_labels(table)) == [
        "BF16, one device, eager",
        "BF16, TP=2, eager",
        "FP8, one device, compiled",
    ]
    assert list(run_labels(wb.speed_table([made(), made("FP8")]))) == ["BF16", "FP8"]


def test_cautions_name_the_precisions_where_not_all_are_meant():
    runs = [made(), made("FP8", reference_kernels=True, random_weights=True)]
    table = wb.speed_table(runs)
    assert cautions(table) == (
        "random weights (FP8); reference kernels, whose times mean nothing (FP8)"
    )
    assert cautions(table, times=False) == "random weights (FP8)"
    assert cautions(table.iloc[1:], times=False) == "random weights"
    assert cautions(table.iloc[:1]) == ""


def test_a_styled_table_has_units_intervals_cautions_and_what_was_merged_in():
    table = wb.speed_table([made(), made("FP8", random_weights=True)]).assign(ssim=[None, 0.98])
    page = style_speed(table).to_html()
    assert "1.05 (0.9 – 1.2)" in page
    assert "peak, MiB ↓" in page
    assert "Random weights (FP8)" in page
    assert "0.980" in page
    assert "nan" not in page.lower().replace("nano", "")
    hostile = style_speed(wb.speed_table([made("<b>x</b>", stored="<b>x</b>")])).to_html()
    assert "<b>x" not in hostile
