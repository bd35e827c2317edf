"""Two experts, one for high noise and one for low: which of them ran, and from what image."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from clips import PROMPT, STEPS, assert_same_as_diffusers, frame

import workbench as wb
from workbench.errors import SpecError
from workbench.records import GenerationSet
from workbench.trajectories import Trajectory


@pytest.fixture(scope="module")
def i2v(tiny_i2v: Path, shared_runs: Path) -> Iterator[GenerationSet]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(shared_runs))
        yield wb.generate(str(tiny_i2v), PROMPT, sampling=STEPS, images=frame())


def test_plain_diffusers_agrees_from_a_first_frame(
    i2v: GenerationSet, tiny_i2v: Path, shared_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(shared_runs))
    assert_same_as_diffusers(i2v, str(tiny_i2v))


def test_the_floor_is_drawn_from_the_same_images(
    i2v: GenerationSet, shared_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(shared_runs))
    with pytest.raises(SpecError, match="give the set that was drawn"):
        wb.noise_floor(i2v.spec)
    again = wb.noise_floor(i2v).repeat
    assert again.candidate.spec.images == i2v.spec.images
    assert again.candidate[0].sha256 == i2v[0].sha256


def test_the_expert_of_each_step_is_the_one_that_ran(i2v: GenerationSet) -> None:
    kept = i2v[0].trajectory
    # 0.875 of 1000 training steps is where the second one takes over.
    wanted = tuple("transformer" if t >= 875 else "transformer_2" for t in kept.timesteps)
    assert kept.experts == wanted
    assert set(wanted) == {"transformer", "transformer_2"}
    assert i2v.audit.verdict == "as requested"


def test_a_second_guidance_is_of_the_steps_of_the_second_alone(
    tiny_wan: Path, shared_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(shared_runs))
    with wb.launch(str(tiny_wan)) as engine:
        one, same, other = (
            engine.generate(PROMPT, sampling=STEPS.but(guidance_scale_2=scale))[0].trajectory
            for scale in (None, 5.0, 2.0)  # None is the first's, 5
        )
        with pytest.raises(SpecError, match="the prompt '' is empty"):
            engine.load(wb.Workload("", sampling=STEPS, requests=1))
    np.testing.assert_array_equal(one.latents, same.latents)
    first = one.experts.count("transformer")
    assert 0 < first < len(one.experts)
    np.testing.assert_array_equal(one.latents[: first + 1], other.latents[: first + 1])
    assert not np.array_equal(one.latents[first + 1], other.latents[first + 1])


@pytest.mark.slow
def test_the_boundary_is_the_models_own(tiny_i2v: Path, runs: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(tiny_i2v, tmp_path / "moved")
    index = json.loads((moved / "model_index.json").read_text())
    (moved / "model_index.json").write_text(json.dumps({**index, "boundary_ratio": 0.95}))
    kept = wb.generate(str(moved), PROMPT, sampling=STEPS, images=frame())[0].trajectory
    assert kept.experts == ("transformer", "transformer_2", "transformer_2")


def test_what_needs_an_image_or_takes_none_is_refused_before_a_launch(
    tiny_i2v: Path, tiny_wan: Path, runs: Path
) -> None:
    with pytest.raises(SpecError, match="give images="):
        wb.generate(str(tiny_i2v), PROMPT, sampling=STEPS)
    with pytest.raises(SpecError, match="would ignore them"):
        wb.generate(str(tiny_wan), PROMPT, sampling=STEPS, images=frame())
    assert not runs.exists()


def test_a_trajectory_without_experts_loads_as_before(tmp_path: Path) -> None:
    latents = np.zeros((2, 1, 4), np.float32)
    Trajectory(latents=latents, timesteps=np.ones(1)).save(tmp_path / "old.safetensors")
    assert Trajectory.load(tmp_path / "old.safetensors").experts is None
