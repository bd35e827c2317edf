"""Every form of Wan at low precision: from prompts, from images, with one expert and with two."""

from pathlib import Path

import numpy as np
import pytest
from clips import PROMPT, STEPS, frame
from PIL import Image

import workbench as wb
from workbench.recipes import Calibration
from workbench.records import GenerationSet

FORMS = ("tiny_wan", "tiny_i2v", "tiny_ti2v")
RTN = wb.QuantRecipe(method="auto-round", scheme="W4A16")


def runs_in(one: GenerationSet) -> dict[str, set[str]]:
    """Transformer -> schemes of its quantized linears."""
    found: dict[str, set[str]] = {}
    for layer in one.audit.layers:
        if layer.quantized:
            found.setdefault(layer.name.partition(".")[0], set()).add(layer.found)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp8", "int8", "w4a16"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_runs_at_every_precision(
    form: str, precision: str, request: pytest.FixtureRequest, shared_runs: Path, monkeypatch
) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(shared_runs))
    source = request.getfixturevalue(form)
    experts = ("transformer",) if form == "tiny_ti2v" else ("transformer", "transformer_2")
    images = None if form == "tiny_wan" else frame()
    if precision == "w4a16":
        model, options = wb.quantize(str(source), RTN), {}
    else:
        model, options = str(source), {"quantization": precision}
    one = wb.generate(model, PROMPT, sampling=STEPS, images=images, **options)
    assert one.audit.verdict == "as requested"
    assert runs_in(one) == {name: {precision.upper()} for name in experts}
    assert set(one[0].trajectory.experts) == set(experts)


@pytest.mark.slow
@pytest.mark.parametrize(
    "recipe",
    [
        {"method": "auto-round", "scheme": "W4A16", "iters": 2},
        {"method": "modelopt", "scheme": "FP8"},
    ],
    ids=["tuned", "static"],
)
def test_image_to_video_is_calibrated_and_served(
    recipe: dict, tiny_i2v: Path, tmp_path: Path, shared_runs: Path, monkeypatch
) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(shared_runs))
    files = [tmp_path / f"{name}.png" for name in ("one", "other")]
    for file, pixels in zip(files, (frame(), 255 - frame()), strict=True):
        Image.fromarray(pixels).save(file)
    size = {"height": 64, "width": 64, "num_frames": 5, "num_inference_steps": 4}
    calibration = Calibration(prompts=("a ball", "a box"), images=files, **size)
    checkpoint = wb.quantize(str(tiny_i2v), wb.QuantRecipe(calibration=calibration, **recipe))
    one = wb.generate(checkpoint, PROMPT, sampling=STEPS, images=frame())
    assert one.audit.verdict == "as requested"
    assert set(runs_in(one)) == {"transformer", "transformer_2"}
    assert np.isfinite(one[0].trajectory.latents).all()
