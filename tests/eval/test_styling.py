import pytest

from workbench.eval import compare, style, summary


@pytest.fixture
def html(reference, make_set):
    floor = compare(reference, make_set(repeat=1))
    return style(summary(reference, [make_set("FP8", noise=0.02)], floor=floor)).to_html()


def test_units_and_arrows_are_in_the_headings(html):
    for heading in (
        "latency, s ↓",
        "peak memory, MiB ↓",
        "PSNR, dB ↑",
        "SSIM ↑",
        "on disk (transformer), MiB ↓",
    ):
        assert heading in html


def test_numbers_have_their_spread_and_n(html):
    assert ">identical<" in html
    assert "2.20 [2.10 – 2.30]" in html
    assert "5.0 (4.0)" in html
    assert "as requested, 50%" in html


def test_what_takes_meaning_from_speed_is_said_below(html):
    assert "caption-side: bottom" in html
    assert "Speed is not meaningful here: FP8 runs on reference kernels; this ran on a CPU" in html


def test_of_pictures_nothing_is_said_about_time(html):
    assert "flicker" not in html
    assert "frames" not in html


def test_a_gpu_needs_no_such_note(make_set):
    cuda = {"audit": {"platform": "cuda"}}
    reference = make_set(**cuda)
    found = summary(reference, [], floor=compare(reference, make_set(repeat=1, **cuda)))
    assert "not meaningful" not in style(found).to_html()


def test_markup_is_escaped(reference, make_set):
    table = summary(reference, [], floor=compare(reference, make_set(repeat=1))).assign(
        kernel="<script>"
    )
    assert "<script>" not in style(table).to_html()
