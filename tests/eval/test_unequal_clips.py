"""Clips that are not alike in frames: refused with the call that helps, or taken as pictures."""

import pytest
from made_videos import make_videos
from moving_clips import noisy

import workbench as wb
from workbench.errors import ComparisonRefused
from workbench.eval import compare
from workbench.eval.metrics import score
from workbench.eval.temporal_metrics import TEMPORAL

ONE = {"prompts": ("a ball",), "seeds": (0,)}


class TestUnequalClips:
    @pytest.fixture(autouse=True)
    def runs(self, monkeypatch, tmp_path):
        monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path))

    def test_49_frames_against_45_are_refused_with_what_can_be_done(self):
        a, b = make_videos(frames=49, **ONE), make_videos("INT8", frames=45, **ONE)
        with pytest.raises(ComparisonRefused, match=r"num_frames is 49 against 45\.") as refused:
            compare(a, b)
        assert "across=" not in str(refused.value)
        call = str(refused.value).rpartition(": ")[2]
        assert call == "wb.score(reference[0].frames, candidate[0].frames, align='shorter')"
        printed = eval(call, {"wb": wb, "reference": a, "candidate": b})  # word for word
        assert printed.notes == ("reference cut from 49 to 45 frames",)
        with pytest.raises(ComparisonRefused, match="reference has 49 frames and the candidate 45"):
            score(a[0].frames, b[0].frames)
        found = score(a[0].frames, b[0].frames, align="shorter")
        assert found.notes == ("reference cut from 49 to 45 frames",)
        assert found.values["jitter"] == 0

    def test_clips_from_other_first_frames_are_refused(self):
        a = make_videos(**ONE, images=("0123" * 16,))
        b = make_videos("INT8", **ONE, images=("4567" * 16,))
        with pytest.raises(ComparisonRefused, match=r"images is .*0123.* against .*4567"):
            compare(a, b)

    def test_one_frame_is_compared_as_a_picture(self):
        a = make_videos(frames=1, **ONE)
        b = make_videos("INT8", lambda clip: noisy(clip, 30), frames=1, **ONE)
        one = compare(a, b)
        assert not set(TEMPORAL) & set(one.table())
        assert len(one.frames(0)) == 1
        assert one.worst_frames(n=3)["frame"].tolist() == [0]
        assert "frame" not in one.caption(0)
        with pytest.raises(ComparisonRefused, match="jitter need at least 2 frames"):
            compare(a, b, metrics=["psnr_db", "jitter"])
        with pytest.raises(ComparisonRefused, match="has 1 of"):
            one.time_slices(0)
