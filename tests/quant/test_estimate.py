"""The estimate against hand-computed counts; its refusal; that it is logged before the work."""

import logging
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import workbench as wb
from workbench.errors import NotSupportedHere
from workbench.quant import autoround, estimate
from workbench.quant.plan import make_plan
from workbench.recipes import Calibration, QuantRecipe
from workbench.zoo.weights import weight_bytes

PROMPTS = ("a teapot on a table", "a red car")


OF_RUNS = ("height", "width", "guidance_scale", "num_frames")


def recipe(prompts: int = 2, steps: int = 4, **changes: Any) -> QuantRecipe:
    own = {name: changes.pop(name) for name in OF_RUNS if name in changes}
    calibration = Calibration(prompts=PROMPTS[:prompts], num_inference_steps=steps, **own)
    options = {"iters": 10, "calibration": calibration, **changes}
    return QuantRecipe(method="auto-round", scheme="W4A16", **options)


def estimated(source: Path, asked: QuantRecipe) -> estimate.Estimate:
    return estimate.estimate(source, asked, make_plan(source, asked))


@pytest.fixture(autouse=True)
def one_gigaflop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "gemm_rate", lambda: 1e9)
    monkeypatch.setattr(estimate, "rounding_rate", lambda: 1e6)


def test_passes_are_prompts_times_steps_times_guidance(tiny_qwen: Path, tiny_wan: Path) -> None:
    assert estimated(tiny_qwen, recipe(2, 4)).passes == 2 * 4 * 2
    assert estimated(tiny_wan, recipe(2, 4)).passes == 2 * 4, "two experts share the steps"
    assert estimated(tiny_qwen, recipe(2, 4, guidance_scale=1.0)).passes == 2 * 4


def load(source: Path, **own: Any) -> estimate._Load:
    asked = recipe(**own)
    return estimate._load(source, asked, make_plan(source, asked))


def test_tokens_are_those_of_the_models_own_patch_and_text(tiny_ti2v: Path, tiny_wan: Path) -> None:
    """TI2V draws patches of 32 pixels, and every Wan pads its prompts to 512 tokens."""
    size = {"height": 64, "width": 96, "num_frames": 9}
    assert load(tiny_wan, **size).image == 4 * 6 * 3
    assert load(tiny_ti2v, **size).image == 2 * 3 * 3
    assert load(tiny_wan).text == load(tiny_ti2v).text == 512


def test_text_of_image_to_video_is_padded_alike(tiny_i2v: Path, tmp_path: Path) -> None:
    Image.new("RGB", (128, 128)).save(tmp_path / "frame.png")
    asked = recipe()
    asked = asked.but(calibration=asked.calibration.but(images=tmp_path / "frame.png"))
    assert estimate._load(tiny_i2v, asked, make_plan(tiny_i2v, asked)).text == 512


def test_time_counts_the_multiplications_of_one_block(tiny_wan: Path) -> None:
    """One more step of tuning costs a forward and a backward pass of a block, and its rounding.

    Tiny Wan, 128 x 128 x 5 frames: 2 latent frames of 8 x 8 tokens, 512 of text; width 256, ffn
    512. Six products of 256 x 256 and two of 256 x 512 see the picture, two see the text.
    """
    seconds = [estimated(tiny_wan, recipe(iters=iters)).seconds for iters in (10, 11)]
    square, ffn = 256 * 256, 256 * 512
    forward = (6 * square + 2 * ffn) * 128 + 2 * square * 512
    weights = 8 * square + 2 * ffn
    each = 2 * 3 * forward / 1e9 + weights / 1e6
    assert seconds[1] - seconds[0] == pytest.approx(2 * each), "both experts"


def test_memory_grows_with_what_is_kept(tiny_qwen: Path) -> None:
    weights = sum(weight_bytes(tiny_qwen).values())
    rounding = QuantRecipe(method="auto-round", scheme="W4A16")
    needed = estimated(tiny_qwen, rounding).memory_bytes - estimate._LIBRARIES
    assert weights <= needed <= 2 * weights
    small, large = (
        estimated(tiny_qwen, recipe(height=side, width=side)).memory_bytes for side in (128, 1024)
    )
    tokens = (1024 // 16) ** 2 - (128 // 16) ** 2
    assert large - small == pytest.approx(4 * 16 * tokens * 256 * 4, rel=0.01)


def test_what_does_not_fit_is_refused_before_the_work(
    tiny_qwen: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate, "free_bytes", lambda: 1 << 20)
    monkeypatch.setattr(autoround, "_quantize", lambda *_, **__: pytest.fail("it began"))
    with pytest.raises(NotSupportedHere, match=r"GiB, and 0\.0 GiB are free.*fewer prompts"):
        wb.quantize(str(tiny_qwen), recipe())


def test_it_is_logged(tiny_qwen: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    asked = recipe()
    estimate.announce(tiny_qwen, asked, make_plan(tiny_qwen, asked))
    assert "W4A16 tuned of qwen-image: about" in caplog.text
    assert "16 calibration passes of each transformer" in caplog.text


def test_the_rate_is_measured_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert 1e8 < estimate.gemm_rate(0.02) < 1e16
    assert 1e5 < estimate.rounding_rate(0.02) < 1e14
