"""The real engine on CPU draws videos from prompts and from first frames."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from clips import PROMPT, STEPS, assert_same_as_diffusers, frame

import workbench as wb
from workbench import store
from workbench.errors import ComparisonRefused, SpecError
from workbench.records import GenerationSet
from workbench.serve.engine import Engine
from workbench.videos import decode


@pytest.fixture(scope="module")
def runs_of_module(shared_runs: Path) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(shared_runs))
        yield shared_runs


@pytest.fixture(scope="module")
def engine(tiny_ti2v: Path, runs_of_module: Path) -> Iterator[Engine]:
    with wb.launch(str(tiny_ti2v)) as launched:
        yield launched


@pytest.fixture(scope="module")
def from_image(engine: Engine) -> GenerationSet:
    return engine.generate(PROMPT, sampling=STEPS, images=frame())


def test_a_first_frame_is_kept_and_is_part_of_the_key(
    engine: Engine, from_image: GenerationSet
) -> None:
    item = from_image[0]
    np.testing.assert_array_equal(np.asarray(item.input_image), frame())
    assert len(item.frames) == 5
    assert list(from_image.input_images) == [PROMPT]
    (record,) = store.read(from_image.path)["inputs"]
    assert from_image.spec.images == (record["sha256"],)
    assert record["scaled"] is None
    without = engine.generate(PROMPT, sampling=STEPS)
    other = engine.generate(PROMPT, sampling=STEPS, images=255 - frame())
    assert without[0].input_image is None
    assert len({one.key for one in (from_image, without, other)}) == 3
    assert len({one[0].sha256 for one in (from_image, without, other)}) == 3
    assert wb.load(from_image.key).spec == from_image.spec


def test_the_store_answers_again_and_says_again_what_was_changed(
    engine: Engine, from_image: GenerationSet
) -> None:
    with pytest.warns(UserWarning, match="num_frames=4 .* 5 frames"):
        again = engine.generate(PROMPT, sampling=STEPS.but(num_frames=4), images=[frame()])
    assert again.key == from_image.key
    chained = engine.generate("on", sampling=STEPS, images=from_image[0])
    assert np.array_equal(np.asarray(chained[0].input_image), np.asarray(from_image[0].image))


def test_one_frame_from_an_image_is_one_picture(engine: Engine) -> None:
    (item,) = engine.generate(PROMPT, sampling=STEPS.but(num_frames=1), images=frame())
    assert len(item.frames) == 1
    assert (item.folder / "image.png").is_file()
    with pytest.raises(SpecError, match="one picture, not a video"):
        item.mp4()


def test_a_set_with_images_can_be_followed_and_its_layers_recorded(
    engine: Engine, from_image: GenerationSet
) -> None:
    followed = engine.follow(from_image)
    steps = followed.items[0].arrays["velocities"]
    assert steps.shape == (3, *from_image[0].trajectory.latents.shape[1:])
    recording = engine.record_layers(from_image, steps=(1, 3))
    errors = engine.layer_errors(recording)
    assert len(errors)
    assert (errors["relative_l2"] < 1e-6).all()


def test_a_load_begins_with_the_first_frame(engine: Engine, from_image: GenerationSet) -> None:
    workload = wb.Workload(PROMPT, sampling=STEPS, concurrency=2, requests=2)
    result = engine.load(workload, images=frame())
    assert [row.sha256 for row in result.rows] == 2 * [from_image[0].sha256]
    assert result.workload.images == from_image.spec.images
    assert {row.pictures for row in result.rows} == {1}
    assert " clips/s;" in str(result)
    (without,) = engine.load(workload.but(requests=1, concurrency=1)).rows
    assert without.sha256 != from_image[0].sha256


def test_a_benchmark_is_keyed_by_its_first_frames(
    engine: Engine, from_image: GenerationSet
) -> None:
    workload = wb.Workload(PROMPT, sampling=STEPS, requests=1)
    options = {"warmups": 0, "stages": False}
    one = wb.benchmark(engine, workload, images=frame(), **options)
    other = wb.benchmark(engine, workload, images=255 - frame(), **options)
    without = wb.benchmark(engine, workload, **options)
    assert len({made.key for made in (one, other, without)}) == 3
    assert one.spec.workload.images == from_image.spec.images
    assert one.result.rows[0].sha256 == from_image[0].sha256
    assert wb.benchmark(engine, one.spec.workload, images=frame(), **options) == one
    with pytest.raises(ComparisonRefused, match="images is"):
        wb.speedup(one, other)
    assert wb.speedup(one, other, across=("images",))["throughput"] > 0
    assert set(wb.speed_table([one])["drawn"]) == {"clips"}


def test_people_get_an_mp4_of_the_same_frames(from_image: GenerationSet, tmp_path: Path) -> None:
    item = from_image[0]
    file = item.mp4()
    assert file == item.folder / "video.mp4" == item.mp4()
    video = decode(file.read_bytes())
    assert (video.fps, video.codec, video.frames[0].size) == (8, "h264", (64, 64))
    assert len(video.frames) == len(item.frames)
    assert decode(item.mp4(tmp_path / "slow.mp4", fps=2).read_bytes()).fps == 2
    assert item.mp4(fps=4).name == "video-4fps.mp4"
    with pytest.raises(SpecError, match="fps=0"):
        item.mp4(fps=0)


def test_plain_diffusers_agrees_from_a_first_frame(
    from_image: GenerationSet, tiny_ti2v: Path
) -> None:
    assert_same_as_diffusers(from_image, str(tiny_ti2v))
