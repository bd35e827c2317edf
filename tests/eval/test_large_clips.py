"""Clips whose metrics over time take long: flicker alone comes by itself."""

import pytest
from made_videos import make_videos
from moving_clips import noisy

from workbench.errors import ComparisonRefused
from workbench.eval import compare, scored_clips, summary
from workbench.eval.metrics import METRICS
from workbench.eval.ordering import fidelity_order, fidelity_orders
from workbench.eval.report_tables import every_pair, order_table
from workbench.eval.run_card import run_card
from workbench.eval.temporal_metrics import TEMPORAL

ONE = {"prompts": ("a ball",), "seeds": (0,)}


def test_of_large_clips_flicker_comes_by_itself_and_the_rest_when_asked(runs, monkeypatch):
    monkeypatch.setattr(scored_clips, "AFFORDABLE", 8 * 48 * 64 - 1)
    a, b = make_videos(**ONE), make_videos("INT8", lambda clip: noisy(clip, 30), **ONE)
    floor = compare(a, make_videos(repeat=1, **ONE))
    cheap = compare(a, b, floor=floor)
    assert set(TEMPORAL) & set(cheap.table()) == {"flicker_error"}
    assert set(cheap.missing) == set(TEMPORAL) - {"flicker_error"}
    assert "8 transitions of 64 x 48 pixels" in cheap.missing["jitter"]
    asked = compare(a, b, metrics=["psnr_db", "jitter"], floor=floor)
    assert {"psnr_db", "jitter"} == set(asked.table()) & {*METRICS, *TEMPORAL} - {
        "relative_l2",
        "cosine",
    }
    assert asked.missing == {}


def test_tables_and_figures_have_flicker_where_it_is_alone(runs, monkeypatch):
    monkeypatch.setattr(scored_clips, "AFFORDABLE", 0)
    a, b = make_videos(**ONE), make_videos("INT8", lambda clip: noisy(clip, 30), **ONE)
    floor = compare(a, make_videos(repeat=1, **ONE))
    one = compare(a, b, floor=floor)
    assert fidelity_orders([one])["metric"].tolist() == ["psnr_db", "flicker_error"]
    said = fidelity_order([one]).attrs["time_note"]
    assert "read flicker beside it. No jitter here: 8 transitions of 64 x 48 pixels" in said
    assert one.worst_frames("flicker_error", 1)["frame"][0] > 0
    assert one.summary().loc["flicker_error", "floor"] == 0
    assert one.gate(flicker_error=0.5)
    with pytest.raises(ComparisonRefused, match="jitter was not computed: 8 transitions"):
        one.gate(jitter=0.5)
    assert "flicker error" in str(one.players(0))
    assert "change of motion" not in str(one.players(0))
    table = summary(a, [one], floor=floor)
    assert "flicker_error" in table
    assert "jitter" not in table
    assert "flicker_" in str(every_pair([one]))
    assert "No jitter here" in order_table([one]).to_html()
    assert run_card(a, [one], floor=floor).exists()
