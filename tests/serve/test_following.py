"""Along the reference's trajectories: velocities by step, outputs by layer, a planted fault."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import workbench as wb
from workbench.errors import ComparisonRefused, SpecError
from workbench.followed import Followed, LayerRecording
from workbench.records import GenerationSet

FAULTY = "transformer_blocks.1.img_mlp.net.2"
STEPS = wb.Sampling(num_inference_steps=3)


@pytest.fixture(scope="module", autouse=True)
def _store(shared_runs: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(shared_runs))
        yield


@pytest.fixture(scope="module")
def recorded(
    tiny_qwen: Path, sets: dict[str, GenerationSet]
) -> tuple[Followed, LayerRecording, float]:
    """The reference along its own set, its layers, and its largest error against itself."""
    with wb.launch(str(tiny_qwen)) as engine:
        layers = engine.record_layers(sets["BF16"], steps=(1, 3))
        errors = engine.layer_errors(layers)
        return engine.follow(sets["BF16"], pairs=2), layers, errors["relative_l2"].max()


@pytest.fixture(scope="module")
def faulty(tiny_qwen: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with the weights of one linear scaled by 1.05."""
    folder = tmp_path_factory.mktemp("faulty") / "model"
    shutil.copytree(tiny_qwen, folder)
    (file,) = (folder / "transformer").glob("*.safetensors")
    from safetensors.torch import load_file as load
    from safetensors.torch import save_file as save

    weights = load(file)
    weights[f"{FAULTY}.weight"] *= 1.05
    save(weights, file)
    return folder


def test_the_reference_along_itself_is_exact(
    tiny_qwen: Path, sets: dict[str, GenerationSet], recorded: tuple
) -> None:
    followed, layers, largest = recorded
    assert largest == 0
    again = wb.follow(str(tiny_qwen), sets["BF16"], pairs=2, repeat=1)
    assert (wb.velocity_errors(followed, again)["relative_l2"] == 0).all()
    item, arrays = sets["BF16"][0], followed.items[0].arrays
    assert arrays["velocities"].shape == (3, *item.trajectory.latents.shape[1:])
    assert list(arrays["timesteps"]) == list(item.trajectory.timesteps)
    assert set(layers.timesteps) == {1, 3}


def test_the_velocity_is_the_slope_of_the_latents(
    sets: dict[str, GenerationSet], recorded: tuple
) -> None:
    """Euler: x' - x = (sigma' - sigma) v, with sigma = timestep / 1000 and 0 at the end."""
    trajectory, arrays = sets["BF16"][0].trajectory, recorded[0].items[0].arrays
    sigmas = np.append(trajectory.timesteps / 1000, 0.0)
    for step, velocity in enumerate(arrays["velocities"]):
        before, after = trajectory.latents[step : step + 2]
        wanted = before + (sigmas[step + 1] - sigmas[step]) * velocity
        rounding = 2.0**-8 * (np.abs(before) + np.abs(after)) + 2.0**-8  # of BF16
        assert (np.abs(after - wanted) <= rounding).all()


def test_a_candidate_errs_at_each_step_by_itself(
    tiny_qwen: Path, sets: dict[str, GenerationSet], recorded: tuple
) -> None:
    followed, layers, _ = recorded
    with wb.launch(str(tiny_qwen), quantization="fp8") as engine:
        candidate, errors = engine.follow(sets["BF16"], pairs=2), engine.layer_errors(layers)
    table = wb.velocity_errors(followed, candidate)
    assert list(table["step"]) == [1, 2, 3] * 2
    assert table["relative_l2"].between(0.001, 0.3).all()
    own = errors[errors["quantized"]]
    assert own["relative_l2"].between(0.001, 0.1).all()
    assert (errors.loc[~errors["quantized"], "relative_l2"] == 0).all()
    assert set(own["scheme"]) == {"FP8"}
    assert errors.attrs["missing"] == []


def test_a_planted_fault_is_named_by_its_layer(faulty: Path, recorded: tuple) -> None:
    with wb.launch(str(faulty)) as engine:
        errors = engine.layer_errors(recorded[1])
    assert set(errors.loc[errors["relative_l2"] > 0, "name"]) == {FAULTY}
    weights_alone = errors.loc[errors["name"] == FAULTY, "relative_l2"]
    assert weights_alone.between(0.03, 0.06).all()


def test_the_first_step_that_a_planted_fault_moves_is_named(
    faulty: Path, tiny_qwen: Path, sets: dict[str, GenerationSet], tmp_path: Path
) -> None:
    """A fault from the first call on parts the latents in the first step, on a floor of zero."""
    floor = wb.noise_floor(sets["BF16"])
    assert "this floor is zero" in str(floor)
    candidate = wb.generate(str(faulty), sets["BF16"].spec.prompts, sampling=STEPS)
    with pytest.raises(ComparisonRefused, match="model is"):
        wb.compare(sets["BF16"], candidate)
    comparison = wb.compare(sets["BF16"], candidate, floor=floor, across=("model",))
    assert (comparison.table()["first_step_outside"] == 1).all()
    assert comparison.against_floor == "above"


def test_another_models_noise_is_not_followed(
    tiny_qwen: Path, sets: dict[str, GenerationSet], tmp_path: Path
) -> None:
    other = GenerationSet.load(shutil.copytree(sets["BF16"].path, tmp_path / "other"))
    file = other[0].folder / "trajectory.safetensors"
    arrays = load_file(file)
    arrays["latents"] = arrays["latents"] + np.float32(0.5)
    save_file(arrays, file)
    with pytest.raises(SpecError, match="began with other noise"):
        wb.follow(str(tiny_qwen), other, pairs=1)


def test_what_cannot_be_followed_is_refused(
    tiny_qwen: Path, sets: dict[str, GenerationSet]
) -> None:
    with pytest.raises(SpecError, match="pairs=0: follow at least one; the set holds 2"):
        wb.follow(str(tiny_qwen), sets["BF16"], pairs=0)
    with wb.launch(str(tiny_qwen)) as engine, pytest.raises(SpecError, match="takes steps 1 to 3"):
        engine.record_layers(sets["BF16"], steps=(4,))
