"""What a user may give as a first frame, and what is refused or said."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import workbench as wb
from workbench.errors import SpecError
from workbench.pixels import pixel_digest
from workbench.serve.inputs import input_images
from workbench.serve.requests import asked_load, launch_spec
from workbench.zoo.families import family_of

SQUARE = wb.Sampling(height=64, width=64)


def pixels(height: int = 64, width: int = 64) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)


def taken(folder: Path, images, prompts=("a",), sampling=SQUARE):
    return input_images(images, prompts, folder, family_of(folder), sampling)


def test_pixels_at_the_drawn_size_are_taken_as_they_are(tiny_ti2v: Path, tmp_path: Path) -> None:
    picture = Image.fromarray(pixels())
    picture.save(tmp_path / "frame.png")
    for given in (
        pixels(),
        picture,
        tmp_path / "frame.png",
        str(tmp_path / "frame.png"),
        [picture],
    ):
        image = taken(tiny_ti2v, given)["a"]
        assert image.sha256 == pixel_digest([picture])
        np.testing.assert_array_equal(np.asarray(image.picture), pixels())
        assert image.record["scaled"] is None


def test_one_for_all_or_one_for_each(tiny_ti2v: Path) -> None:
    one, other = pixels(), 255 - pixels()
    assert len({image.sha256 for image in taken(tiny_ti2v, one, ("a", "b")).values()}) == 1
    each = taken(tiny_ti2v, np.stack([one, other]), ("a", "b"))
    np.testing.assert_array_equal(np.asarray(each["b"].picture), other)
    with pytest.raises(SpecError, match="2 images for 3 prompts; give one for all"):
        taken(tiny_ti2v, [one, other], ("a", "b", "c"))


def test_an_image_of_the_same_shape_is_scaled_and_both_sizes_are_said(tiny_ti2v: Path) -> None:
    with pytest.warns(UserWarning, match="200 x 201 pixels .* is scaled to 64 x 64"):
        image = taken(tiny_ti2v, pixels(201, 200))["a"]
    wanted = Image.fromarray(pixels(201, 200)).resize((64, 64), Image.Resampling.LANCZOS)
    np.testing.assert_array_equal(np.asarray(image.picture), np.asarray(wanted))
    assert image.record | {"sha256": ""} == {
        "sha256": "", "given_width": 200, "given_height": 201, "width": 64, "height": 64,
        "scaled": "LANCZOS",
    }  # fmt: skip


def test_an_image_of_another_shape_is_refused_with_a_size_that_fits(tiny_ti2v: Path) -> None:
    with pytest.raises(SpecError, match=r"120 x 60 pixels .* draw width=64, height=32"):
        taken(tiny_ti2v, pixels(60, 120))
    fits = wb.Sampling(width=64, height=32)
    with pytest.warns(UserWarning, match="scaled to 64 x 32"):
        taken(tiny_ti2v, pixels(60, 120), sampling=fits)


def test_alpha_counts_where_it_is_not_opaque(tiny_ti2v: Path) -> None:
    picture = Image.fromarray(pixels()).convert("RGBA")
    assert taken(tiny_ti2v, picture)["a"].sha256 == pixel_digest([Image.fromarray(pixels())])
    picture.putpixel((3, 3), (0, 0, 0, 128))
    with pytest.raises(SpecError, match="transparent in places"):
        taken(tiny_ti2v, picture)
    grey = taken(tiny_ti2v, Image.fromarray(pixels()[..., 0]))["a"].picture
    np.testing.assert_array_equal(np.asarray(grey), np.repeat(pixels()[..., :1], 3, axis=-1))


@pytest.mark.parametrize(("image", "says"), [
    (np.zeros((64, 64, 3), np.float32), r"float32 \[64, 64, 3\]: give uint8"),
    (np.zeros((64, 64, 4), np.uint8), r"uint8 \[64, 64, 4\]: give uint8"),
    (Image.new("I;16", (64, 64)), "mode 'I;16'"),
    ("nowhere.png", "nowhere.png cannot be read as a picture"),
    ("", "'' names no picture; give a PNG"),
    (3, "type int: give a path"),
])  # fmt: skip
def test_what_is_no_picture_of_8_bits_is_refused(tiny_ti2v: Path, image, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        taken(tiny_ti2v, [image])


def test_an_image_too_large_to_decode_is_refused(
    tiny_ti2v: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.fromarray(pixels()).save(tmp_path / "frame.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 64 * 64 // 3)
    with pytest.raises(SpecError, match=r"frame.png cannot be read .* exceeds limit"):
        taken(tiny_ti2v, tmp_path / "frame.png")


def test_a_photograph_is_turned_upright(tiny_ti2v: Path, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # rotate by 90 degrees to show
    Image.fromarray(pixels(64, 32)).save(tmp_path / "photo.png", exif=exif)
    tall = wb.Sampling(height=32, width=64)
    assert taken(tiny_ti2v, tmp_path / "photo.png", sampling=tall)["a"].picture.size == (64, 32)


def test_models_that_would_ignore_an_image_refuse_it(tiny_wan: Path, tiny_qwen: Path) -> None:
    for folder in (tiny_wan, tiny_qwen):
        assert taken(folder, None) == {}
        with pytest.raises(SpecError, match="draws from prompts alone and would ignore them"):
            taken(folder, pixels())


def test_a_model_that_needs_an_image_says_so(tiny_i2v: Path, tiny_ti2v: Path) -> None:
    with pytest.raises(SpecError, match="draws from a first frame; give images="):
        taken(tiny_i2v, None)
    assert taken(tiny_ti2v, None) == {}


def asked(folder: Path, given=None, **workload):
    fields = {"sampling": SQUARE, "requests": 2, **workload}
    return asked_load(*launch_spec(str(folder)), wb.Workload(["a", "b"], **fields), given)


def test_a_load_begins_with_images_as_a_generation_does(tiny_i2v: Path) -> None:
    one, other = pixels(), 255 - pixels()
    workload, images = asked(tiny_i2v, [one, other])
    wanted = taken(tiny_i2v, [one, other], ("a", "b"))
    assert workload.images == (wanted["a"].sha256, wanted["b"].sha256)
    np.testing.assert_array_equal(np.asarray(images["b"].picture), other)
    assert workload.sampling.num_frames is not None
    assert asked(tiny_i2v, one).workload.images == 2 * (wanted["a"].sha256,)
    assert asked(tiny_i2v, [one, other], images=workload.images).workload == workload
    with pytest.raises(SpecError, match="the workload names images of SHA-256"):
        asked(tiny_i2v, [other, one], images=workload.images)


def test_a_load_that_cannot_begin_so_is_refused(tiny_i2v: Path, tiny_wan: Path) -> None:
    with pytest.raises(SpecError, match="draws from a first frame; give images="):
        asked(tiny_i2v)
    with pytest.raises(SpecError, match="draws from prompts alone and would ignore them"):
        asked(tiny_wan, pixels())
    with pytest.raises(SpecError, match="3 images for 2 prompts"):
        asked(tiny_i2v, [pixels()] * 3)
    with pytest.raises(SpecError, match="does not have the aspect ratio"):
        asked(tiny_i2v, pixels(60, 120))
    with pytest.warns(UserWarning, match="200 x 200 pixels .* is scaled to 64 x 64"):
        asked(tiny_i2v, pixels(200, 200))


def test_a_workload_holds_digests_and_says_where_images_are_given() -> None:
    plain = wb.Workload("a", requests=1)
    assert "images" not in plain.model_dump()  # keys of before hold
    digest = "0f" * 32
    assert wb.Workload("a", requests=1, images=[digest]).key != plain.key
    for wrong in (pixels(), Image.fromarray(pixels()), "frame.png", ["frame.png"], [digest[1:]]):
        with pytest.raises(SpecError, match="give the images to load or benchmark"):
            wb.Workload("a", requests=1, images=wrong)
    with pytest.raises(SpecError, match="2 digests of images for 1 prompts"):
        wb.Workload("a", requests=1, images=[digest, digest])
