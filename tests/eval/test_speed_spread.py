"""How sure speeds are, and what is said beside them: ranges, waits, failures, other versions."""

from dataclasses import replace

import numpy as np
import pytest
from made_benchmarks import made

import workbench as wb
from workbench.eval.crossing import crossing
from workbench.eval.speed_figures import latency_with_spread
from workbench.eval.speed_parts import request_rows
from workbench.eval.speed_spread import CERTAIN, medians
from workbench.eval.speed_styling import style_speed
from workbench.eval.throughput_figure import throughput_curves


def note(figure):
    return figure.layout.title.subtitle.text.replace("<br>", " ")


LATENCIES = (1.0, 1.3, 0.8, 1.2, 0.9, 1.1, 1.05)


@pytest.mark.parametrize("number", [2, 3, 5])
def test_few_requests_give_a_range_that_no_one_calls_an_interval(number):
    """The smallest and largest of 5 enclose a median in 93.75 % of samples at the most."""
    some = LATENCIES[:number]
    one, half = made("BF16", some), made("FP8", [value / 2 for value in some])
    (row,) = wb.speed_table([one]).to_dict("records")
    assert (row["rounds"], row["latency_s_low"], row["latency_s_high"]) == pytest.approx(
        (number, min(some), max(some))
    )
    assert row["pictures_per_s_low"] == pytest.approx(1 / max(some))
    assert row["pictures_per_s_high"] == pytest.approx(1 / min(some))
    found = wb.speedup(one, half)
    assert found["spread"] == f"range of {number} rounds"
    ends = 2 * min(some) / max(some), 2 * max(some) / min(some)
    for name in ("latency", "throughput"):
        assert (found[f"{name}_low"], found[f"{name}_high"]) == pytest.approx(ends)


def test_enough_requests_give_an_interval():
    assert 1 - 2 * 0.5**CERTAIN >= 0.95 > 1 - 2 * 0.5 ** (CERTAIN - 1)
    one, half = (made(name, LATENCIES[:CERTAIN]) for name in ("BF16", "FP8"))
    assert wb.speedup(one, half)["spread"] == "95 % interval"
    (row,) = wb.speed_table([one]).to_dict("records")
    low, high = np.quantile(medians(one), [0.025, 0.975])
    assert (row["latency_s_low"], row["latency_s_high"]) == pytest.approx((low, high))


def test_requests_that_end_together_are_one_value():
    """16 requests at 8 in flight are two rounds, of 1 s and of 2 s."""
    one = made("BF16", [1.0] * 8 + [2.0] * 8, concurrency=8)
    (row,) = wb.speed_table([one]).to_dict("records")
    assert (row["requests"], row["rounds"]) == (16, 2)
    assert (row["latency_s_low"], row["latency_s_high"]) == (1.0, 2.0)
    assert (row["pictures_per_s_low"], row["pictures_per_s_high"]) == pytest.approx((4.0, 8.0))


def _with_packages(one, **packages):
    return replace(one, provenance={**one.provenance, "packages": packages})


def test_what_else_differs_is_said_and_not_refused():
    one, other = made("BF16"), made("FP8", isolation="process")
    one = replace(_with_packages(one, torch="2.10.0", vllm="0.30.0"), batches={6: 1, 7: 1})
    other = replace(
        _with_packages(other, torch="2.11.0", vllm="0.30.0"),
        batches={8: 2},
        spec=other.spec.but(warmups=0),
    )
    found = wb.speedup(one, other)
    assert found["mean_batch"] == (6.5, 8.0)
    assert found["notes"] == (
        "torch is 2.10.0 (BF16) and 2.11.0 (FP8)",
        "isolation is inline (BF16) and process (FP8)",
        "warm-ups at 1 in flight are 2 (BF16) and 0 (FP8)",
        "the batches that ran differ, in pictures a pass: at 1 in flight 6.5 (BF16) and 8 (FP8)",
    )
    assert wb.speedup(made(), made("FP8"))["notes"] == ()


def test_runs_on_other_cards_say_so():
    def on(one, **gpu):
        return replace(one, provenance={"platform": "Linux-6", "gpus": [{"name": "H200", **gpu}]})

    for here, there, said in (
        (made(), made("FP8"), ()),
        (on(made(), card="0a"), on(made("FP8"), card="0a"), ()),
        (on(made(), card="0a"), on(made("FP8"), card="0b"), ("0a (BF16) and 0b (FP8)",)),
        (on(made()), on(made("FP8"), card="0b"), ("Linux-6 (BF16) and 0b (FP8)",)),
    ):
        notes = tuple(f"the card or machine is {one}" for one in said)
        assert wb.speedup(here, there, across=["platform"])["notes"] == notes


def test_few_rounds_are_called_a_range_in_every_figure_and_table():
    few, enough = made(latencies=[1.0, 1.1]), made("FP8", [1.0 + i / 100 for i in range(6)])
    for runs, said in (
        ([few], "range of fewer than 6 rounds, no 95 % interval"),
        ([few, enough], "95 % interval, or with fewer than 6 rounds the range"),
        ([enough], "95 % interval"),
    ):
        table = wb.speed_table(runs)
        latency = latency_with_spread(table, request_rows(runs))
        assert f"whiskers: {said}" in note(latency)
        assert f"bands: {said};" in note(throughput_curves(table))
        assert f"measured ({said})" in style_speed(table).to_html()
    told = [trace.customdata for trace in throughput_curves(wb.speed_table([few, enough])).data]
    assert [row[-1] for rows in told if rows is not None for row in rows] == [
        "range of 2 rounds",
        "95 % interval",
    ]


def test_a_crossing_of_few_rounds_is_a_line_that_says_as_measured():
    runs = [
        [made(name, [n / rate] * 2 * n, concurrency=n) for n, rate in rates.items()]
        for name, rates in (("BF16", {1: 1.0, 4: 1.0}), ("FP8", {1: 0.8, 4: 1.2}))
    ]
    found = crossing(*runs)
    figure = throughput_curves(wb.speed_table([*runs[0], *runs[1]]), crossings=[found])
    (line,) = figure.layout.shapes
    assert line.x0 == found.at
    assert figure.layout.annotations[-1].text == "FP8 overtakes at 2.0, as measured"
    assert "not decided: FP8" in note(figure)


def waiting(one, seconds):
    """The same with a wait in each latency, as the scheduler reports it."""
    rows = [
        replace(row, queue_wait_s=seconds, stage_durations_s={"stage_0_gen": row.latency_s - 0.01})
        for row in one.result.rows
    ]
    return replace(one, result=replace(one.result, rows=tuple(rows)))


def test_the_wait_for_company_is_split_off_and_said_where_a_request_is_alone():
    alone, quick = waiting(made("BF16"), 0.0115), waiting(made("FP8"), 0.0001)
    many = waiting(made("INT8", [1.0] * 4, concurrency=2), 0.3)
    table = wb.speed_table([alone, quick, many])
    np.testing.assert_allclose(table["latency_less_wait_s"], [1.0385, 1.0499, 0.7])
    page = style_speed(table).to_html()
    assert "queue, s" in page
    assert "engine, s" in page
    said = "at 1 in flight latency holds 12 ms of the scheduler's wait for company (BF16;"
    assert said in note(throughput_curves(table))
    assert said[1:] in page
    assert said[1:] in wb.advice([alone, quick])
    assert wb.speedup(alone, quick)["notes"] == (
        "the scheduler's wait in the latency at 1 in flight is 12 ms (BF16) and 0 ms (FP8)",
    )
    assert "queue, s" not in style_speed(wb.speed_table([made()])).to_html()


def test_failed_requests_are_shown_wherever_a_number_leaves_them_out():
    table = wb.speed_table([made(), made("FP8", failed=1)])
    said = "requests that failed, in no number: 1 (FP8)"
    page = style_speed(table).to_html()
    assert said[1:] in page
    assert "3 of 4" in page
    assert said in note(throughput_curves(table))
    assert "failed" not in style_speed(wb.speed_table([made()])).to_html()
