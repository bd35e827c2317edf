"""Benchmarks side by side, on made-up records."""

import re
from dataclasses import replace

import numpy as np
import pytest
from made_benchmarks import SIZED, made

import workbench as wb
from workbench.errors import ComparisonRefused
from workbench.eval.population import RESAMPLES
from workbench.eval.speed import MAY_DIFFER, conditions, device, layout
from workbench.eval.speed_spread import medians, throughputs
from workbench.eval.speed_styling import style_speed
from workbench.eval.throughput_figure import throughput_curves
from workbench.specs import Parallelism, Sampling

TP2 = Parallelism(tensor_parallel_size=2)
_ENDS = ("", "_low", "_high")


def test_a_speedup_is_the_ratio_of_median_latencies_and_of_throughputs():
    slow = made("BF16", [2.0, 2.0, 2.0, 6.0])  # median 2, 4 pictures in 12 s
    fast = made("FP8", [1.0, 1.0, 1.0, 1.0])
    found = wb.speedup(slow, fast)
    assert found["latency"] == pytest.approx(2.0)
    assert found["throughput"] == pytest.approx(3.0)
    assert found["latency_low"] == pytest.approx(2.0)
    # All four the slow one: 6 s each. All four a fast one: 2 s each.
    assert found["latency_high"] <= 6.0
    assert 2.0 <= found["throughput_low"] < 3.0 < found["throughput_high"] <= 6.0


def test_runs_that_never_vary_have_a_speedup_without_spread():
    found = wb.speedup(made("BF16", [2.0] * 5), made("FP8", [1.0] * 5))
    values = {found[f"{name}{end}"] for name in ("latency", "throughput") for end in _ENDS}
    assert values == {2.0}


def test_two_runs_that_drift_alike_still_have_a_spread():
    drifting = [1.0, 1.5, 2.0, 2.5, 3.0, 3.5]
    found = wb.speedup(made("BF16", drifting), made("FP8", [value / 2 for value in drifting]))
    assert found["latency"] == pytest.approx(2.0)
    assert found["latency_low"] < 1.5
    assert found["latency_high"] > 2.7


def test_a_single_round_of_requests_has_no_interval():
    once = made("FP8", [1.0, 1.5], concurrency=2)
    assert np.isnan(throughputs(once)).all()
    found = wb.speedup(made("BF16", [2.0, 2.0], concurrency=2), once)
    assert found["throughput"] == pytest.approx(2 / 1.5 / 1.0)
    assert np.isnan(found["throughput_low"])
    assert np.isnan(wb.speed_table([once])["latency_s_high"].item())


def test_throughput_of_a_resample_is_what_littles_law_says():
    # Two in flight, rounds of 1 s and of 3 s: 4 pictures in 4 s, and the mean latency is 2 s.
    one = made("BF16", [1.0, 1.0, 3.0, 3.0], concurrency=2)
    assert one.result.pictures_per_s == pytest.approx(1.0)
    drawn = throughputs(one)
    assert drawn.shape == (RESAMPLES,)
    # N / mean latency of the resamples: both rounds short, one of each, both long.
    np.testing.assert_allclose(np.unique(drawn.round(9)), [2 / 3, 1.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(np.unique(medians(one)), [1.0, 2.0, 3.0])
    np.testing.assert_allclose((drawn.round(9) == 1).mean(), 0.5, atol=0.05)


def test_the_same_benchmark_has_the_same_resamples():
    np.testing.assert_array_equal(throughputs(made()), throughputs(made()))


DIFFERENT = {
    "model": {"model": "other"},
    "size": {"sampling": SIZED.but(width=512)},
    "num_inference_steps": {"sampling": SIZED.but(num_inference_steps=4)},
    "guidance": {"sampling": SIZED.but(true_cfg_scale=4.0)},
    "compiled": {"enforce_eager": False},
    "parallelism": {"parallelism": TP2},
    "batching": {"max_num_seqs": 4},
    "concurrency": {"concurrency": 2},
    "runtime": {"runtime": "vllm-omni-server"},
    "platform": {"platform": "cpu"},
    "weights": {"random_weights": True},
}


@pytest.mark.parametrize("field", DIFFERENT)
def test_a_speedup_across_anything_but_precision_is_refused_by_name(field):
    reference, candidate = made("BF16"), made("FP8", **DIFFERENT[field])
    ours, theirs = conditions(reference)[field], conditions(candidate)[field]
    with pytest.raises(
        ComparisonRefused, match=re.escape(f"{field} is {ours!r} against {theirs!r}")
    ):
        wb.speedup(reference, candidate)
    assert wb.speedup(reference, candidate, across=[field])["latency"] == pytest.approx(1.0)


def test_every_differing_field_is_named():
    with pytest.raises(ComparisonRefused, match=r"compiled is .*parallelism is .*'TP=2'"):
        wb.speedup(made(), made("FP8", enforce_eager=False, parallelism=TP2))


def test_a_folder_that_was_quantized_elsewhere_may_have_another_name():
    stored = made("NVFP4", model="other", stored="NVFP4")
    assert wb.speedup(made(), stored)["latency"] == pytest.approx(1.0)


def test_an_unknown_condition_is_refused():
    with pytest.raises(ComparisonRefused, match=r"'colour'.*there are model, size"):
        wb.speedup(made(), made("FP8"), across=["colour"])


def test_every_condition_has_a_name_that_may_differ():
    assert set(conditions(made())) == set(MAY_DIFFER)


def test_the_device_is_the_processor_that_the_platform_uses():
    assert device(made()) == "NVIDIA H200"
    assert device(made(platform="cpu")) == "Some CPU"


def test_a_row_says_what_was_measured():
    (row,) = wb.speed_table([made("FP8", failed=1, parallelism=TP2)]).to_dict("records")
    assert row["precision"] == "FP8"
    assert row["layout"] == "TP=2"
    assert row["size"] == "1024 x 1024"
    assert (row["requests"], row["failed"]) == (3, 1)
    assert row["latency_s"] == pytest.approx(1.1)  # of 1.2, 0.9 and 1.1
    assert row["latency_s_low"] <= row["latency_s"] <= row["latency_s_high"]
    assert row["pictures_per_s"] == pytest.approx(3 / 4.2)
    assert row["weight_bytes"] == 2 * (250 + 50) * 2**20
    assert row["reserved_peak_bytes"] == 1000 * 2**20
    assert row["checkpoint_bytes"] == 600 * 2**20


def test_books_that_a_device_does_not_keep_are_not_numbers():
    (row,) = wb.speed_table([made()]).to_dict("records")
    missing = ("load_peak_bytes", "allocated_peak_bytes", "device_used_bytes", "queue_wait_s")
    assert all(np.isnan(row[name]) for name in missing)
    (row,) = wb.speed_table([made(load_peak_mib=700, parallelism=TP2)]).to_dict("records")
    assert row["load_peak_bytes"] == 2 * 700 * 2**20


def test_a_layout_has_a_short_name():
    both = Parallelism(tensor_parallel_size=2, cfg_parallel_size=2, vae_patch_parallel_size=4)
    assert layout(both) == "TP=2 x CFG=2 x VAE=4"
    assert layout(Parallelism()) == "one device"


def test_a_size_that_was_not_asked_for_is_none_in_the_conditions():
    assert conditions(made(sampling=Sampling()))["size"] == (None, None, None)


def test_what_a_video_model_draws_is_called_clips():
    video = wb.Sampling(num_inference_steps=4, height=64, width=64, num_frames=9)
    clips, pictures = made("BF16", sampling=video), made("FP8")
    assert clips.result.drawn == "clips"
    assert " clips/s;" in str(clips)
    assert " pictures/s;" in str(pictures)
    for runs, what in (
        ([clips], "clips"),
        ([pictures], "pictures"),
        ([clips, pictures], "pictures or clips"),
    ):
        table = wb.speed_table(runs)
        page = style_speed(table).to_html()
        assert f"{what} / s ↑" in page
        assert f"{what} a pass" in page
        figure = throughput_curves(table)
        assert figure.layout.yaxis.title.text == f"{what} / s"
    two = [clips, made("FP8", [0.5, 0.5, 0.5], sampling=video)]
    assert "draws a clip in 0.5 s" in wb.advice(two)


def test_clips_from_other_first_frames_are_not_compared():
    one, other = made("BF16"), made("FP8")
    spec = other.spec.but(workload=other.spec.workload.but(images=["0f" * 32]))
    with pytest.raises(ComparisonRefused, match="images"):
        wb.speedup(one, replace(other, spec=spec))
