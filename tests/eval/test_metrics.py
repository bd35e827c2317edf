import subprocess
import sys
import threading

import numpy as np
import pytest

from workbench.errors import ComparisonRefused
from workbench.eval import metrics as module
from workbench.eval.fidelity import mean_absolute_error, psnr_db, ssim
from workbench.eval.flip_error import flip
from workbench.eval.metrics import (
    DEFAULT,
    METRICS,
    metric_table,
    score,
    score_pairs,
)
from workbench.eval.spectrum import high_frequency_error
from workbench.eval.temporal_metrics import TEMPORAL


def noisy(shape=(40, 30, 3), seed=0, noise=9):
    source = np.random.default_rng(seed)
    a = source.integers(0, 256, shape).astype(np.uint8)
    return a, np.clip(a + source.normal(0, noise, shape), 0, 255).astype(np.uint8)


@pytest.fixture
def no_weights(monkeypatch):
    for name in ("lpips_available", "clip_score_available"):
        monkeypatch.setattr(f"workbench.eval.perceptual.{name}", lambda: "weights not available")


def test_the_table_names_every_metric():
    assert list(METRICS) == [
        "psnr_db",
        "ssim",
        "ms_ssim",
        "flip",
        "mae",
        "high_frequency_error",
        "lpips",
        "clip_score",
        "relative_l2",
        "cosine",
    ]
    assert all(key == metric.key for key, metric in METRICS.items())


def test_defaults_are_of_pictures_and_need_no_weights():
    assert all(METRICS[key].on == "pictures" and not METRICS[key].weights for key in DEFAULT)


@pytest.mark.parametrize("metric", METRICS.values(), ids=list(METRICS))
def test_every_entry_is_whole(metric):
    assert metric.function.__doc__
    assert metric.source
    assert metric.lower < metric.upper
    end = metric.upper if metric.better == "higher" else metric.lower
    assert np.isnan(metric.identical) if metric.on == "text" else metric.identical == end


@pytest.mark.parametrize("key", [*DEFAULT, "ms_ssim"])
def test_identical_pictures_give_what_the_table_says(key):
    a, _ = noisy((180, 176, 3))
    assert METRICS[key].function(a, a) == pytest.approx(METRICS[key].identical, abs=1e-9)


@pytest.mark.parametrize("key", [k for k, m in METRICS.items() if m.on == "latents"])
def test_identical_latents_give_what_the_table_says(key):
    a = np.random.default_rng(0).normal(size=(2, 3, 4))
    assert METRICS[key].function(a, a) == METRICS[key].identical


@pytest.mark.parametrize("key", DEFAULT)
def test_values_lie_in_their_range_and_worsen_with_noise(key):
    values = [METRICS[key].function(*noisy(noise=noise)) for noise in (2, 20, 90)]
    metric = METRICS[key]
    assert all(metric.lower <= value <= metric.upper for value in values)
    assert values == sorted(values, reverse=metric.better == "higher")


def test_the_table_as_a_frame(no_weights):
    table = metric_table().set_index("key")
    assert list(table.index) == [*METRICS, *TEMPORAL]
    assert table.loc["psnr_db", ["unit", "better", "range"]].tolist() == [
        "dB",
        "higher",
        "0 to infinity",
    ]
    assert table.loc["lpips", "available"] == "weights not available"
    assert (table.loc[list(DEFAULT), "available"] == "").all()


def test_the_table_says_which_dimension_of_vbench_a_metric_is_or_is_near(no_weights):
    said = metric_table().set_index("key")["vbench"]
    assert said[said != ""].to_dict() == {
        "flicker_error": "temporal_flickering: the same number, as temporal_flickering",
        "warping_error": "motion_smoothness: near, another number",
        "motion_error": "dynamic_degree: near, another number, as motion_candidate_px",
        "subject_drift": "subject_consistency: near, another number",
        "background_drift": "background_consistency: near, another number",
    }


def test_score_gives_the_defaults_each_by_its_function():
    a, b = noisy()
    found = score(a, b)
    assert found.values == {
        "psnr_db": psnr_db(a, b),
        "ssim": ssim(a, b),
        "flip": flip(a, b),
        "mae": mean_absolute_error(a, b),
        "high_frequency_error": high_frequency_error(a, b),
    }
    assert (found.missing, found.notes, found.clamped) == ({}, (), 0)


def test_score_keeps_what_the_input_rules_say():
    a, b = noisy()
    values = b / 127.5 - 1
    values[0, 0, 0] = 1.5
    found = score(a, values, value_range=(-1, 1), metrics=["mae"])
    assert found.clamped == 1
    assert "lay outside the range" in found.notes[0]
    assert score(a, b[1:], fit="crop", metrics=["mae"]).notes[0].endswith("39 x 30")


@pytest.mark.parametrize("shape", [(5, 5, 3), (6, 9, 3)])
def test_defaults_say_what_tiny_pictures_are_too_small_for(shape):
    found = score(*noisy(shape))
    size = f"{shape[0]} x {shape[1]}"
    assert set(found.values) == {"psnr_db", "flip", "mae"}
    assert f"SSIM needs at least 11 x 11 pixels, got {size}" in found.missing["ssim"]
    assert f"at least 16 x 16 pixels, got {size}" in found.missing["high_frequency_error"]


@pytest.mark.parametrize("key", ["ssim", "ms_ssim", "high_frequency_error"])
def test_a_metric_asked_for_by_name_raises_instead(key):
    with pytest.raises(ComparisonRefused, match="needs at least"):
        score(*noisy((5, 5, 3)), metrics=["psnr_db", key])


def test_a_picture_of_one_colour_has_no_high_frequency_error():
    a, b = np.full((20, 20, 3), 9, np.uint8), noisy((20, 20, 3))[1]
    assert "no detail finer" in score(a, b).missing["high_frequency_error"]


def test_weights_that_are_missing_are_said_and_nothing_is_guessed(no_weights):
    found = score(*noisy(), metrics=["mae", "lpips", "clip_score"], prompt="a car")
    assert list(found.values) == ["mae"]
    assert found.missing == dict.fromkeys(("lpips", "clip_score"), "weights not available")


def test_clip_score_takes_the_prompt_and_the_candidate(monkeypatch):
    a, b = noisy()
    seen = []
    monkeypatch.setattr("workbench.eval.perceptual.clip_score_available", lambda: "")
    monkeypatch.setattr(
        "workbench.eval.perceptual.clip_score", lambda *given: seen.append(given) or 25.0
    )
    assert score(a, b, metrics="clip_score", prompt="a car").values == {"clip_score": 25.0}
    assert seen[0][0] == "a car"
    assert np.array_equal(seen[0][1], b)
    assert "needs the prompt" in score(a, b, metrics="clip_score").missing["clip_score"]


@pytest.mark.parametrize(("typed", "meant"), [("pnsr", "psnr_db"), ("SSIM", "ssim"), ("xy", "")])
def test_an_unknown_metric_names_the_nearest_and_all(typed, meant):
    said = f"no metric '{typed}'; did you mean '{meant}"
    for call in (lambda: score(*noisy(), metrics=[typed]), lambda: score_pairs([], [typed])):
        with pytest.raises(ComparisonRefused, match=said) as error:
            call()
        assert f"Known: {', '.join([*METRICS, *TEMPORAL])}" in str(error.value)


def test_latent_metrics_are_not_of_pictures():
    with pytest.raises(ComparisonRefused, match="relative_l2 measures latents, not pictures"):
        score(*noisy(), metrics=["relative_l2"])


def test_pairs_come_scored_in_their_order():
    pairs = [noisy(seed=seed, noise=3 * seed) for seed in range(9)]
    assert list(score_pairs(pairs)) == [score(a, b) for a, b in pairs]


def test_pairs_are_taken_as_they_are_needed(monkeypatch):
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    taken = []

    def pairs():
        for seed in range(20):
            taken.append(seed)
            yield noisy(seed=seed)

    found = score_pairs(pairs(), ["mae"])
    next(found)
    assert len(taken) == 4
    next(found)
    assert len(taken) == 5
    found.close()
    assert len(taken) == 5


def test_pairs_run_on_every_core(monkeypatch):
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    together = threading.Barrier(2, timeout=20)  # passes only when two wait at once
    monkeypatch.setattr(module, "score", lambda *_, **__: together.wait())
    assert len(list(score_pairs([(0, 0)] * 4))) == 4


def test_a_pair_that_is_refused_is_refused_in_its_turn():
    found = score_pairs([noisy(), (noisy()[0], noisy((9, 9, 3))[1]), noisy()])
    assert next(found).values
    with pytest.raises(ComparisonRefused, match="40 x 30 pixels and the candidate 9 x 9"):
        next(found)


def test_every_pair_meets_its_prompt(monkeypatch):
    monkeypatch.setattr("workbench.eval.perceptual.clip_score_available", lambda: "")
    monkeypatch.setattr("workbench.eval.perceptual.clip_score", lambda prompt, _: len(prompt))
    found = score_pairs([noisy()] * 3, ["clip_score"], prompts=["a", "bb", "ccc"])
    assert [one.values["clip_score"] for one in found] == [1, 2, 3]
    with pytest.raises(ComparisonRefused, match="one prompt a pair"):
        list(score_pairs([noisy()] * 3, ["clip_score"], prompts=["a"]))


def test_the_table_loads_no_library_of_its_metrics():
    code = "import sys, workbench.eval.metrics; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert loaded & {"cv2", "torch", "torchmetrics", "skimage", "transformers"} == set()
