import numpy as np
import pytest
import torch
from PIL import Image

from workbench.errors import ComparisonRefused
from workbench.eval.pictures import prepare


def picture(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).random(shape)


@pytest.mark.parametrize(
    ("given", "as_rows_first"),
    [
        (picture(20, 30), lambda p: p[..., None]),
        (picture(20, 30, 1), lambda p: p),
        (picture(592, 400, 3), lambda p: p),
        (picture(1, 20, 30), lambda p: p[0][..., None]),
        (picture(3, 20, 30), lambda p: p.transpose(1, 2, 0)),
        (floats(1, 3, 64, 64), lambda p: p[0].transpose(1, 2, 0)),
        (picture(1, 20, 30, 3), lambda p: p[0]),
        (picture(1, 1, 20, 30), lambda p: p[0, 0][..., None]),
    ],
    ids=lambda value: str(value.shape) if isinstance(value, np.ndarray) else "",
)
def test_every_layout_is_read_along_its_axes(given, as_rows_first):
    found = prepare(given, given)
    assert np.array_equal(found.reference, as_rows_first(given))
    assert found.reference.flags.c_contiguous
    assert found.notes == ()


@pytest.mark.parametrize("shape", [(3, 400, 3), (4, 400, 1), (1, 3, 400, 3), (1, 30, 4)])
def test_a_layout_that_reads_in_two_ways_is_refused(shape):
    with pytest.raises(ComparisonRefused, match=r"reads as .* pass \[h, w, c\]"):
        prepare(picture(*shape), picture(*shape))


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((2, 3, 20, 20), "is a batch"),
        ((20, 30, 2), "have 1, 3 or 4 channels"),
        ((8, 20, 30), "have 1, 3 or 4 channels"),
        ((20,), "is no picture"),
        ((0, 20, 3), "is no picture"),
        ((1, 1, 3, 20, 20), "is no picture"),
    ],
)
def test_what_is_no_single_picture_is_refused(shape, said):
    with pytest.raises(ComparisonRefused) as error:
        prepare(picture(20, 30, 3), picture(*shape))
    assert said in str(error.value)
    assert f"the candidate has shape {shape}" in str(error.value)


def test_pillow_images_arrays_and_tensors_are_the_same_picture():
    pixels = picture(20, 30, 3)
    for other in (Image.fromarray(pixels), torch.from_numpy(pixels), pixels.tolist()):
        if isinstance(other, list):
            other = np.array(other, np.uint8)
        assert np.array_equal(prepare(pixels, other).candidate, pixels)


@pytest.mark.parametrize("mode", ["P", "1", "CMYK"])
def test_pillow_modes_without_plain_pixels_are_converted(mode):
    image = Image.fromarray(picture(20, 30, 3)).convert(mode)
    found = prepare(image, image.convert("RGB"))
    assert np.array_equal(found.reference, found.candidate)


def test_a_tensor_that_numpy_cannot_read_says_what_to_do():
    with pytest.raises(ComparisonRefused, match=r"tensor\.detach\(\)\.float\(\)\.cpu\(\)"):
        prepare(torch.zeros(3, 20, 30, dtype=torch.bfloat16), picture(20, 30, 3))


@pytest.mark.parametrize("thing", ["a path", None, np.zeros((9, 9), complex)])
def test_what_holds_no_numbers_is_refused(thing):
    with pytest.raises(ComparisonRefused, match="pass a Pillow image, an array or a tensor"):
        prepare(thing, picture(9, 9))


def test_bytes_stay_bytes():
    found = prepare(picture(20, 30, 3), picture(20, 30, 3, seed=1))
    assert (found.reference.dtype, found.data_range) == (np.uint8, 255.0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_from_0_to_1_become_float64(dtype):
    values = floats(20, 30, 3).astype(dtype)
    found = prepare(values, values)
    assert (found.reference.dtype, found.data_range) == (np.float64, 1.0)
    assert np.array_equal(found.reference, values.astype(np.float64))


def test_bytes_against_floats_of_the_same_picture_are_the_same():
    pixels = picture(20, 30, 3)
    found = prepare(pixels, (pixels / 255).astype(np.float32))
    assert np.abs(found.reference - found.candidate).max() < 1e-7


@pytest.mark.parametrize("dtype", [bool, np.int64, np.uint16, np.int8])
def test_other_integers_need_their_range(dtype):
    pixels = (picture(20, 30, 3) > 127).astype(dtype)
    with pytest.raises(ComparisonRefused, match=r"from .* to .*, and its white is not known"):
        prepare(pixels, pixels)
    assert set(np.unique(prepare(pixels, pixels, value_range=(0, 1)).reference)) == {0.0, 1.0}


def test_a_stray_value_is_clamped_counted_and_said():
    values = floats(64, 64, 3)
    values[5, 6, 1] = 1.24
    found = prepare(values, floats(64, 64, 3))
    assert (found.reference[5, 6, 1], found.clamped) == (1.0, 1)
    assert found.notes == (
        "1 of 12288 values of the reference lay outside the range "
        f"({values.min():.4g} to 1.24) and were clamped",
    )


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (255 * floats(20, 30, 3), "0.", "254."),
        (2 * floats(20, 30, 3) - 1, "-0.99", "0.99"),
        (np.where(floats(20, 30, 3) > 0.95, 1.2, 0.5), "0.5", "1.2"),
        (np.pad([[1.6]], ((0, 19), (0, 29)), constant_values=0.5), "0.5", "1.6"),
    ],
    ids=["0 to 255", "-1 to 1", "many a little", "few far"],
)
def test_an_ambiguous_range_is_refused(values, low, high):
    with pytest.raises(ComparisonRefused) as error:
        prepare(values, values)
    assert f"floats from {low}" in str(error.value)
    assert f"to {high}" in str(error.value)
    assert "pass value_range=(0, 255) or value_range=(-1, 1)" in str(error.value)


@pytest.mark.parametrize(("low", "high"), [(0, 255), (-1, 1)])
def test_a_range_that_is_given_maps_to_0_to_1(low, high):
    values = floats(20, 30, 3)
    given = values * (high - low) + low
    found = prepare(given, given, value_range=(low, high))
    assert np.allclose(found.reference, values, atol=1e-12)
    assert found.clamped == 0


def test_values_outside_a_given_range_are_clamped_and_counted():
    values = np.linspace(-2, 1, 300).reshape(10, 30)
    found = prepare(values, np.zeros((10, 30)), value_range=(-1, 1))
    assert found.clamped == (values < -1).sum()
    assert found.reference.min() == 0


def test_bytes_keep_their_range_beside_a_given_one():
    pixels = picture(20, 30, 3)
    found = prepare(pixels, pixels / 127.5 - 1, value_range=(-1, 1))
    assert np.allclose(found.reference, found.candidate, atol=1e-12)


@pytest.mark.parametrize("wrong", [(1, 1), (1, 0), (0, float("inf"))])
def test_a_range_that_is_none_is_refused(wrong):
    with pytest.raises(ComparisonRefused, match="is no range"):
        prepare(floats(9, 9), floats(9, 9), value_range=wrong)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_with_the_first_place(value):
    values = floats(3, 20, 30)
    values[1, 4, 7] = values[2, 9, 9] = value
    with pytest.raises(ComparisonRefused, match=r"2 values .* row 4, column 7, channel 1"):
        prepare(floats(20, 30, 3), values)


@pytest.mark.parametrize("as_floats", [False, True])
def test_alpha_is_laid_on_white(as_floats):
    pixels = np.zeros((10, 20, 4), np.uint8)
    pixels[:, :10, 3], pixels[:, 10:, 3] = 255, 51
    given = pixels / 255 if as_floats else pixels
    found = prepare(given, np.zeros((10, 20, 3), np.uint8))
    white = found.data_range
    assert found.reference[0, 0] == pytest.approx([0, 0, 0])
    assert found.reference[0, 19] == pytest.approx([0.8 * white] * 3)
    assert found.notes == ("alpha of the reference laid on white",)


def test_gray_beside_rgb_is_expanded():
    gray = picture(20, 30)
    found = prepare(picture(20, 30, 3), gray)
    assert all(np.array_equal(found.candidate[..., c], gray) for c in range(3))
    assert found.notes == ("gray candidate expanded to RGB",)


def test_gray_beside_gray_stays_gray():
    assert prepare(picture(20, 30), picture(1, 20, 30)).reference.shape == (20, 30, 1)


def test_unequal_sizes_are_refused_with_both():
    with pytest.raises(ComparisonRefused, match=r"20 x 30 pixels and the candidate 24 x 36"):
        prepare(picture(20, 30, 3), picture(24, 36, 3))


def test_crop_takes_the_middle_of_both():
    a, b = picture(20, 40, 3), picture(24, 30, 3)
    found = prepare(a, b, fit="crop")
    assert np.array_equal(found.reference, a[:, 5:35])
    assert np.array_equal(found.candidate, b[2:22])
    assert found.notes == ("20 x 40 and 24 x 30 cropped to the middle 20 x 30",)


@pytest.mark.parametrize("channels", [1, 3])
def test_resize_is_pillow_lanczos_of_the_candidate(channels):
    a, b = picture(20, 30, channels), picture(40, 45, channels)
    found = prepare(a, b, fit="resize")
    image = Image.fromarray(b.squeeze()).resize((30, 20), Image.Resampling.LANCZOS)
    assert np.array_equal(found.candidate.squeeze(), np.asarray(image))
    assert np.array_equal(found.reference, a)
    assert found.notes == ("candidate resized from 40 x 45 to 20 x 30 (Lanczos)",)


def test_resized_floats_stay_in_range_and_near_resized_bytes():
    b = 64 + picture(40, 60, 3) // 2
    as_bytes = prepare(picture(20, 30, 3), b, fit="resize").candidate
    as_floats = prepare(floats(20, 30, 3), b / 255, fit="resize").candidate
    assert np.abs(as_floats * 255 - as_bytes).max() < 1.5
    edges = np.where(floats(40, 60) > 0.5, 1.0, 0.0)
    overshot = prepare(floats(20, 30), edges, fit="resize").candidate
    assert (overshot.min(), overshot.max()) == (0, 1)


def test_an_unknown_fit_is_refused():
    with pytest.raises(ComparisonRefused, match="fit='stretch' is unknown"):
        prepare(picture(9, 9), picture(9, 9), fit="stretch")


def test_what_was_prepared_is_left_as_it_is():
    first = prepare(picture(20, 30, 4), floats(3, 22, 30), fit="crop")
    again = prepare(first.reference, first.candidate)
    assert np.array_equal(first.reference, again.reference)
    assert np.array_equal(first.candidate, again.candidate)
    assert again.notes == ()
