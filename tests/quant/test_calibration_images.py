"""First frames of a calibration: what is refused before any work, what is said and kept."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import workbench as wb
from workbench import store
from workbench.errors import SpecError
from workbench.quant import calibration as calibrating
from workbench.quant import ranges
from workbench.quant.calls import first_frames, input_images
from workbench.recipes import Calibration, QuantRecipe
from workbench.records import Generation

SIZE = {"height": 64, "width": 64, "num_frames": 5, "num_inference_steps": 2}


@pytest.fixture
def red(tmp_path: Path) -> Path:
    Image.new("RGB", (64, 64), "red").save(tmp_path / "frame.png")
    return tmp_path / "frame.png"


@pytest.fixture
def _no_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (calibrating, ranges):
        monkeypatch.setattr(module, "load_pipeline", lambda *_, **__: pytest.fail("it was loaded"))


def calibrated(*images: Path | None) -> Calibration:
    return Calibration(prompts=("a ball", "a box"), images=images, **SIZE)


def static(calibration: Calibration) -> QuantRecipe:
    return QuantRecipe(method="modelopt", scheme="FP8", calibration=calibration)


def test_one_image_is_for_all_prompts(tiny_i2v: Path, red: Path, tmp_path: Path) -> None:
    Image.new("RGB", (64, 64), "blue").save(tmp_path / "other.png")
    same = first_frames(tiny_i2v, calibrated(red))
    assert [picture.getpixel((0, 0)) for picture in same] == [(255, 0, 0)] * 2
    each = first_frames(tiny_i2v, calibrated(red, tmp_path / "other.png"))
    assert [picture.getpixel((0, 0)) for picture in each] == [(255, 0, 0), (0, 0, 255)]
    assert first_frames(tiny_i2v, Calibration(prompts=("a", "b"))) == [None, None]
    mixed = first_frames(tiny_i2v, calibrated(None, red))
    assert (mixed[0], mixed[1].getpixel((0, 0))) == (None, (255, 0, 0))


def test_a_file_that_changed_is_refused_with_both_digests(tiny_i2v: Path, red: Path) -> None:
    made = calibrated(red)
    Image.new("RGB", (64, 64), "blue").save(red)
    now = calibrated(red).image_sha256[0]
    says = f"frame.png has another .*SHA-256 {made.image_sha256[0]} then, {now} now; make the Cal"
    with pytest.raises(SpecError, match=says):
        first_frames(tiny_i2v, made)
    red.unlink()
    with pytest.raises(SpecError, match=r"frame\.png cannot be read"):
        first_frames(tiny_i2v, made)


def test_first_frames_are_fitted_to_the_models_own_patch(
    tiny_ti2v: Path, tiny_i2v: Path, red: Path
) -> None:
    """3:2 of 100 pixels is 67, which is 64 in patches of 32 or of 16; 150 is 160 or 144."""
    Image.new("RGB", (150, 100)).save(red)
    size = {"height": 128, "width": 192}
    (picture,) = first_frames(tiny_ti2v, Calibration(prompts=("a",), images=red, **size))
    assert picture.size == (192, 128)
    Image.new("RGB", (128, 116)).save(red)
    asked = Calibration(prompts=("a",), images=red, height=128, width=128)
    assert first_frames(tiny_ti2v, asked)[0].size == (128, 128)  # 116 is nearer to 128 than to 96
    with pytest.raises(SpecError, match="does not have the aspect ratio"):
        first_frames(tiny_i2v, asked)  # 112 in patches of 16


def test_generations_stand_for_the_files_of_their_first_frames(
    tiny_i2v: Path, tmp_path: Path
) -> None:
    facts = {"seed": 0, "sha256": "", "elapsed_s": 1.0, "stage_durations_s": {}}
    drawn = []
    for number, colour in enumerate(("red", "blue")):
        folder = tmp_path / f"{number:04d}-0"
        (folder / "frames").mkdir(parents=True)
        for frame, shown in enumerate((colour, "white")):
            Image.new("RGB", (64, 64), shown).save(folder / f"frames/{frame:04d}.png")
        drawn.append(Generation(folder=folder, prompt="a", peak_memory_bytes=0, **facts))
    files = [one.folder / "frames/0000.png" for one in drawn]
    assert calibrated(*drawn) == calibrated(*files)
    assert calibrated(*drawn).images == tuple(map(str, files))
    assert calibrated(None, drawn[1]) == calibrated(None, files[1])
    one = Calibration(prompts=("a ball", "a box"), images=drawn[0], **SIZE)
    assert one == calibrated(files[0])
    picture = Generation(folder=tmp_path, prompt="a", peak_memory_bytes=0, **facts)
    with pytest.raises(SpecError, match=r"image\.png'\] are not there"):
        calibrated(picture)


@pytest.mark.usefixtures("_no_pipeline")
@pytest.mark.parametrize("kind", ["wide", "torn", "changed"])
def test_images_are_refused_before_a_pipeline_is_loaded(
    kind: str, tiny_i2v: Path, red: Path, runs: Path
) -> None:
    if kind == "wide":
        Image.new("RGB", (128, 64)).save(red)
    if kind == "torn":
        red.write_bytes(red.read_bytes()[:60])
    made = calibrated(red)
    if kind == "changed":
        Image.new("RGB", (64, 64)).save(red)
    says = {
        "wide": "does not have the aspect ratio",
        "torn": "cannot be read as a picture",
        "changed": "make the Calibration again",
    }[kind]
    with pytest.raises(SpecError, match=says):
        wb.quantize(str(tiny_i2v), static(made))
    with pytest.raises(SpecError, match=says):
        wb.activation_ranges(str(tiny_i2v), made)
    assert not (runs / "checkpoints").exists()


@pytest.mark.usefixtures("_no_pipeline")
def test_ranges_of_a_model_that_begins_with_an_image_ask_for_one(tiny_i2v: Path) -> None:
    with pytest.raises(SpecError, match="begins each run with a first frame; give Calibration"):
        wb.activation_ranges(str(tiny_i2v), Calibration(prompts=("a ball",), **SIZE))


def test_a_scaled_image_is_said_and_in_the_manifest(tiny_i2v: Path, red: Path, runs: Path) -> None:
    y, x = np.mgrid[0:96, 0:96]
    large = Image.fromarray(np.stack([2 * x, 2 * y, x + y], -1).astype(np.uint8))
    large.save(red)
    made = calibrated(red)
    with pytest.warns(UserWarning, match="image of 96 x 96 pixels .* scaled to 64 x 64") as said:
        checkpoint = wb.quantize(str(tiny_i2v), static(made))
    assert sum("is scaled to" in str(one.message) for one in said) == 1
    assert store.read(checkpoint.path)["calibration_images"] == [
        one.record for one in input_images(tiny_i2v, made)
    ]
    record = store.read(checkpoint.path)["calibration_images"][0]
    assert (record["given_width"], record["width"], record["scaled"]) == (96, 64, "LANCZOS")
