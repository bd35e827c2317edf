import re

import numpy as np
import pytest
from moving_clips import as_uint8, ball_clip, every_fourth_shifted
from PIL import Image

from workbench.errors import ComparisonRefused
from workbench.eval.time_slices import liveliest_row, time_slices

CLIP = as_uint8(ball_clip())
HOSTILE = "<script>alert(1)</script>"


def pictures(clip):
    return [Image.fromarray(frame) for frame in clip]


def test_the_liveliest_row_goes_through_what_moves():
    assert 16 <= liveliest_row(CLIP) < 32  # where the ball is


def test_the_liveliest_row_of_a_blinking_line_is_that_line():
    clip = np.zeros((4, 20, 16, 3), np.uint8)
    clip[::2, 13] = 200
    assert liveliest_row(clip) == 13


def test_each_clip_has_its_slice_and_its_difference():
    page = str(
        time_slices({"BF16": pictures(CLIP), "FP8": pictures(every_fourth_shifted(CLIP))}, row=20)
    )
    captions = re.findall("<figcaption>(.*?)</figcaption>", page)
    assert captions == ["reference BF16", "frame 0 and the row", "FP8", "difference of FP8 x 8"]
    assert "row 20 of 48 pixels, as asked for; time runs downwards, 9 frames" in page
    assert "http" not in page


def test_text_is_escaped():
    page = str(time_slices({HOSTILE: pictures(CLIP), "b": pictures(CLIP)}, caption=HOSTILE))
    assert HOSTILE not in page


@pytest.mark.parametrize("row", [-1, 48])
def test_a_row_outside_is_refused(row):
    with pytest.raises(ComparisonRefused, match=f"row={row} is outside the frames; .* 0 to 47"):
        time_slices({"BF16": pictures(CLIP)}, row=row)


def test_one_frame_and_unequal_clips_are_refused():
    with pytest.raises(ComparisonRefused, match="at least 2 frames of one size, and BF16 has 1"):
        time_slices({"BF16": pictures(CLIP[:1])})
    with pytest.raises(ComparisonRefused, match="clips of one shape"):
        time_slices({"BF16": pictures(CLIP), "FP8": pictures(CLIP[:5])})
