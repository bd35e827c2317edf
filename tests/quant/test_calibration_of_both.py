"""A TI2V model draws from prompts and from first frames, and is calibrated from both."""

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import workbench as wb
from workbench import store
from workbench.quant import pipelines
from workbench.recipes import Calibration, QuantRecipe
from workbench.records import Checkpoint
from workbench.wan_first_frames import image_to_video

WAN = "embedded:wan"
SIZE = {"num_inference_steps": 2, "height": 64, "width": 64, "num_frames": 5}
PROMPTS = ("a ball rolling to the right on grass", "a rocket rising in the clouds")
STATIC = {"method": "modelopt", "scheme": "FP8"}
TUNED = {"method": "auto-round", "scheme": "W4A16", "iters": 2}
Make = Callable[..., Checkpoint]


@pytest.fixture(scope="module")
def red(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("frames") / "red.png"
    Image.new("RGB", (64, 64), "red").save(file)
    return file


@pytest.fixture(scope="module")
def made(shared_runs: Path) -> Make:
    def make(model: str, options: dict, images: tuple[Path | None, ...] | None) -> Checkpoint:
        calibration = Calibration(prompts=PROMPTS, images=images, **SIZE)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("WORKBENCH_RUNS", str(shared_runs))
            return wb.quantize(model, QuantRecipe(**options, calibration=calibration))

    return make


def weights(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    (file,) = (checkpoint.path / "transformer").glob("*.safetensors")
    return load_file(file)


@pytest.mark.parametrize("source", ["tiny", pytest.param(WAN, marks=pytest.mark.slow)])
def test_input_scales_are_of_the_prompts_and_of_the_first_frames(
    source: str, made: Make, red: Path, tiny_ti2v: Path
) -> None:
    """The oracle: plain maxima over the runs that were asked for, watched by other hooks."""
    model = str(tiny_ti2v) if source == "tiny" else source
    mixed = made(model, STATIC, (red, None))
    assert mixed.calibration_note == "1 of 2 prompts with a first frame, the others alone"
    assert [bool(one) for one in store.read(mixed.path)["calibration_images"]] == [True, False]
    written = weights(mixed)
    calibration = Calibration(prompts=PROMPTS, images=(red, None), **SIZE)
    seen = wb.activation_ranges(model, calibration).groupby("name").amax.max()
    named = [name for name in seen.index if f"{name}.input_scale" in written]
    assert len(named) > len(mixed.layers) / 2  # others have a name of their own in the file
    for name in named:
        assert float(written[f"{name}.input_scale"]) == pytest.approx(seen[name] / 448, rel=1e-6)


def test_tuning_sees_the_first_frames(
    made: Make, red: Path, tiny_ti2v: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AutoRound itself would draw from the prompts and leave the images out without a word."""
    from diffusers import WanImageToVideoPipeline, WanPipeline

    drawn = []
    for kind in (WanPipeline, WanImageToVideoPipeline):
        call = kind.__call__

        def watched(self, *arguments, call=call, **options):
            drawn.append(type(self).__name__)
            return call(self, *arguments, **options)

        watched.__signature__ = inspect.signature(call)
        monkeypatch.setattr(kind, "__call__", watched)
    mixed = made(str(tiny_ti2v), TUNED, (None, red))
    assert drawn == ["WanPipeline", "WanImageToVideoPipeline"]
    assert mixed.calibration_note.startswith("1 of 2 prompts with a first frame")
    alone = made(str(tiny_ti2v), TUNED, None)
    assert alone.calibration_note.startswith("0 of 2 prompts with a first frame")
    assert drawn[2:] == ["WanPipeline"] * 2
    a, b = weights(alone), weights(mixed)
    assert any(not torch.equal(a[name], b[name]) for name in a)


def test_a_given_frame_is_what_the_transformer_sees_first(tiny_ti2v: Path) -> None:
    """Its tokens are told to be without noise, and the others are not."""
    pipeline = pipelines.load_pipeline(tiny_ti2v)
    other = image_to_video(pipeline)
    assert other.transformer is pipeline.transformer
    assert image_to_video(other) is other
    times = []
    pipeline.transformer.register_forward_pre_hook(
        lambda _, arguments, options: times.append(options["timestep"][0]), with_kwargs=True
    )
    size = {**SIZE, "num_inference_steps": 1, "output_type": "latent"}
    other(Image.new("RGB", (64, 64)), prompt="a ball", **size)
    tokens = len(times[0]) // 2  # of two latent frames
    assert (times[0][:tokens] == 0).all()
    assert (times[0][tokens:] > 0).all()
