"""Frames and sizes that are asked for, and those that are drawn."""

import json
from pathlib import Path

import pytest

import workbench as wb
from workbench.errors import SpecError
from workbench.sampling import frames_drawn, frames_note
from workbench.serve.requests import asked_for, needed_bytes
from workbench.specs import GenerateSpec, LaunchSpec, ModelRef, PromptSet
from workbench.zoo.families import family_of
from workbench.zoo.sizes import drawable

WAN, FLUX = "WanPipeline", "FluxPipeline"


@pytest.fixture
def pipeline(tmp_path: Path):
    """A folder with the configs that sizes depend on, and no weights."""

    def made(name: str = WAN, vae: dict | None = None) -> Path:
        (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": name}))
        for part, config in (
            ("vae", {"temperal_downsample": [False, True, True], **(vae or {})}),
            ("transformer", {"patch_size": [1, 2, 2], "num_attention_heads": 2}),
        ):
            (tmp_path / part).mkdir()
            (tmp_path / part / "config.json").write_text(json.dumps(config))
        return tmp_path

    return made


def asked(folder: Path, **fields):
    launch = LaunchSpec(model=ModelRef(str(folder)))
    return asked_for(launch, folder, "a ball", seeds=(0,), sampling=wb.Sampling(**fields)).spec


@pytest.mark.parametrize(
    ("frames", "drawn"),
    [(1, 1), (2, 1), (3, 1), (4, 5), (5, 5), (48, 49), (49, 49), (50, 49), (51, 49), (52, 53)],
)
def test_the_engine_draws_4k_and_1(frames: int, drawn: int) -> None:
    # vllm_omni/diffusion/models/wan2_2/pipeline_wan2_2.py:758, line by line
    theirs = frames if frames % 4 == 1 else frames // 4 * 4 + 1
    assert frames_drawn(frames) == drawn == max(theirs, 1)


@pytest.mark.parametrize(("frames", "said"), [(3, "so 1 frame is drawn"), (4, "so 5 frames are")])
def test_what_is_drawn_instead_is_said_in_words_that_agree(frames: int, said: str) -> None:
    assert said in frames_note(frames)


def test_48_frames_are_49_of_one_key_and_both_numbers_are_said(pipeline) -> None:
    folder = pipeline()
    with pytest.warns(UserWarning, match="num_frames=48 is not 4k.1, so 49 frames are drawn"):
        given = asked(folder, num_frames=48)
    assert given.sampling.num_frames == 49
    assert given.key == asked(folder, num_frames=49).key


@pytest.mark.parametrize(("fields", "says"), [
    ({"height": 112}, "height=112: this model draws multiples of 32 .* draw 96; use 96 or 128"),
    ({"height": 64, "width": 16}, "width=16: .*; use 32"),
])  # fmt: skip
def test_a_size_that_the_engine_would_cut_is_refused(pipeline, fields: dict, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        asked(pipeline(vae={"scale_factor_spatial": 16}), **fields)


def test_the_disk_that_a_request_needs() -> None:
    """By hand: 64 x 32 pixels, 2 prompts, 3 seeds; 6 bytes a pixel of PNG, 1 a pixel of latents."""
    spec = GenerateSpec(
        launch=LaunchSpec(model=ModelRef("embedded:wan")),
        prompts=PromptSet(["a", "b"]),
        seeds=(0, 1, 2),
        sampling=wb.Sampling(num_inference_steps=3, height=32, width=64, num_frames=9),
    )
    # 9 frames of PNG; 3 latent frames at the noise and after each of 3 steps
    assert needed_bytes(spec) == 64 * 32 * (9 * 6 + 3 * 4) * 6
    assert needed_bytes(spec.but(route="videos")) == 64 * 32 * 9 * 6 * 6
    one = spec.but(sampling=wb.Sampling(num_inference_steps=3, height=32, width=64))
    assert needed_bytes(one) == 64 * 32 * (6 + 4) * 6


def test_one_frame_is_a_picture_and_a_picture_has_no_frames(pipeline) -> None:
    folder = pipeline()
    one = wb.Sampling(num_frames=1)
    assert drawable(folder, family_of(folder), one) == (one, None)
    (folder / "model_index.json").write_text(json.dumps({"_class_name": FLUX}))
    with pytest.raises(SpecError, match="num_frames=1: flux draws images"):
        drawable(folder, family_of(folder), one)
