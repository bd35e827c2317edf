import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from workbench.errors import ComparisonRefused
from workbench.eval.galleries import THUMB_SIDE, PairRow, worst_pairs
from workbench.eval.media import GAIN

HOSTILE = "<script>alert(1)</script>"


def plain(value, side=32):
    return Image.new("RGB", (side, side), (value, value, value))


def pair(seed=0, *, prompt="a teapot", candidate=None, errors=True, side=32):
    return PairRow(
        prompt=prompt,
        seed=seed,
        scores={"PSNR": "21.3 dB", "SSIM": "0.81"},
        reference=plain(50, side),
        candidate=candidate or plain(60, side),
        errors=np.full((side, side), 1.0, np.float32) if errors else None,
    )


def pictures(html):
    uris = re.findall(r'src="data:image/webp;base64,([^"]+)"', str(html))
    return [Image.open(io.BytesIO(base64.b64decode(uri))) for uri in uris]


def test_a_row_shows_both_pictures_their_difference_and_the_error():
    html = worst_pairs([pair()], labels=("BF16", "FP8"), caption="worst")
    values = [picture.getpixel((5, 5))[0] for picture in pictures(html)]
    np.testing.assert_allclose(values, [50, 60, 10 * GAIN, 252], atol=4)
    captions = re.findall("<figcaption>(.*?)<", str(html))
    assert captions == ["BF16", "FP8", f"difference x {GAIN}", "FLIP error"]
    assert "PSNR&nbsp;<b>21.3 dB</b> · SSIM&nbsp;<b>0.81</b>" in str(html)
    assert "seed&nbsp;0" in str(html)


def test_no_more_rows_are_made_than_shown():
    made = []

    def rows():
        for seed in range(10):
            made.append(seed)
            yield pair(seed)

    html = worst_pairs(rows(), count=3)
    assert len(pictures(html)) == 3 * 4
    assert made == [0, 1, 2]


def test_without_error_maps_their_column_and_legend_go():
    html = str(worst_pairs([pair(errors=False)]))
    assert len(pictures(html)) == 3
    assert re.search(r'class="bar"[^>]* hidden>', html)
    assert not re.search(r'class="bar"[^>]* hidden>', str(worst_pairs([pair()])))


def test_equal_labels_keep_both_pictures():
    assert len(pictures(worst_pairs([pair()], labels=("BF16", "BF16")))) == 4


def test_no_pairs_are_said():
    assert "no pairs" in str(worst_pairs([]))


def test_thumbnails_of_64_pairs_leave_room_in_a_report():
    side = 512
    noise = np.random.default_rng(0).integers(0, 256, (2, side, side, 3)).astype(np.uint8)
    harsh = PairRow(
        prompt="noise",
        seed=0,
        scores={},
        reference=Image.fromarray(noise[0]),
        candidate=Image.fromarray(noise[1]),
        errors=noise[0, :, :, 0] / np.float32(255),
    )
    html = worst_pairs([harsh])
    assert {picture.size for picture in pictures(html)} == {(THUMB_SIDE, THUMB_SIDE)}
    assert 64 * len(str(html)) < 20e6


def test_unequal_sizes_are_refused():
    with pytest.raises(ComparisonRefused, match=r"\(32, 32\) and \(16, 16\)"):
        worst_pairs([pair(candidate=plain(1, side=16), errors=False)])


def test_everything_is_escaped_and_nothing_is_loaded():
    row = PairRow(
        prompt=HOSTILE,
        seed=0,
        scores={HOSTILE: HOSTILE},
        reference=plain(1),
        candidate=plain(2),
    )
    html = str(worst_pairs([row], labels=(HOSTILE, HOSTILE), caption=HOSTILE))
    assert "<script>alert" not in html
    assert "http" not in html


def test_two_galleries_live_on_one_page():
    ids = {re.search(r'id="(wb-\w+)"', str(worst_pairs([pair()])))[1] for _ in range(2)}
    assert len(ids) == 2
