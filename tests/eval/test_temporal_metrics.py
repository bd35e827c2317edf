import subprocess
import sys

import pytest

from workbench.eval.clip_scores import temporal_scores
from workbench.eval.metrics import METRICS
from workbench.eval.temporal_metrics import KNOWN, TEMPORAL, VBENCH


def test_the_table_names_every_metric_over_time():
    assert list(TEMPORAL) == [
        "flicker_error",
        "warping_error",
        "motion_error",
        "shift_error",
        "jitter",
        "subject_drift",
        "background_drift",
    ]
    assert set(TEMPORAL).isdisjoint(METRICS)


@pytest.mark.parametrize("metric", TEMPORAL.values(), ids=list(TEMPORAL))
def test_every_entry_over_time_is_whole(metric):
    assert metric.function.__name__ == metric.key
    assert metric.function.__doc__
    assert metric.source
    assert metric.lower < metric.upper
    assert (metric.on, metric.better, metric.identical) == ("clips", "lower", 0.0)


def test_some_lie_on_both_sides_of_identical():
    signed = [metric.key for metric in KNOWN.values() if metric.signed]
    assert signed == ["warping_error", "subject_drift", "background_drift"]
    assert KNOWN["warping_error"].closer == "nearer to 0 is closer"
    assert KNOWN["psnr_db"].closer == "higher is closer"
    assert KNOWN["subject_drift"].farness(-0.3) == 0.3
    assert KNOWN["ssim"].farness(0.9) > KNOWN["ssim"].farness(1.0)


def test_only_flickering_claims_to_be_vbench_s():
    assert [near.dimension for near in VBENCH if near.same] == ["temporal_flickering"]
    assert all(near.key != near.dimension for near in VBENCH if not near.same)


def test_what_stands_for_a_dimension_exists():
    given = temporal_scores.__doc__
    assert all(near.key in TEMPORAL or near.key in given for near in VBENCH)
    assert all(near.beside in TEMPORAL for near in VBENCH)


def test_the_table_loads_neither_opencv_nor_torch():
    code = "import sys, workbench.eval.temporal_metrics; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert {"cv2", "torch"}.isdisjoint(loaded.split())
