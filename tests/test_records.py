import hashlib
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from PIL import Image

import workbench as wb
from workbench import store
from workbench.audits import Audit, LayerCensus
from workbench.errors import StoreError
from workbench.recipes import QuantRecipe
from workbench.records import Checkpoint, Generation, GenerationSet, LayerError, Trajectory
from workbench.serve.following import _again
from workbench.specs import GenerateSpec, LaunchSpec, ModelRef, PromptSet, QuantizeSpec, Sampling

MODEL = ModelRef("embedded:qwen-image")
RECIPE = QuantRecipe(method="auto-round", scheme="W4A16")
QUANTIZE = QuantizeSpec(model=MODEL, recipe=RECIPE)
GENERATE = GenerateSpec(
    launch=LaunchSpec(model=MODEL, quantization="fp8"),
    prompts=PromptSet(["a cup"]),
    seeds=(0, 1),
    sampling=Sampling(num_inference_steps=2),
)
LINEAR = LayerCensus(
    name="transformer.block.0.to_q",
    layer="QKVParallelLinear",
    method="Fp8LinearMethod",
    kernel="ReferenceFp8Kernel",
    weight_dtype="float8_e4m3fn",
    weight_bytes=300,
    parameters=300,
    quantized=True,
    reference_kernel=True,
)
KEPT = replace(
    LINEAR,
    name="transformer.proj_out",
    method="none",
    kernel="torch linear",
    quantized=False,
    reference_kernel=False,
    parameters=100,
    reason="output projection",
)
AUDIT = Audit(
    requested="FP8",
    verdict="partly",
    layers=(LINEAR, KEPT),
    platform="cpu",
    attention_backend="TORCH_SDPA",
    world_sizes={"world": 1},
    weight_bytes={"transformer": 400},
)


def trajectory(steps=2):
    latents = np.random.default_rng(0).normal(size=(steps + 1, 1, 4, 8)).astype(np.float32)
    return Trajectory(latents=latents, timesteps=np.linspace(1000, 20, steps))


def generation(folder, seed):
    folder.mkdir(parents=True)
    pixels = np.full((8, 8, 3), seed, np.uint8)
    Image.fromarray(pixels).save(folder / "image.png")
    trajectory().save(folder / "trajectory.safetensors")
    item = Generation(
        folder=folder,
        prompt="a cup",
        seed=seed,
        sha256=hashlib.sha256(pixels.tobytes()).hexdigest(),
        elapsed_s=0.5 + seed,
        stage_durations_s={"denoise": 0.4},
        peak_memory_bytes=1000,
    )
    item.save()
    return item


@pytest.fixture
def generations(runs):
    folder = store.prepare("generations", GENERATE)
    names = [f"cup-{seed}" for seed in (0, 1)]
    for seed, name in enumerate(names):
        generation(folder / name, seed)
    content = {
        "audit": AUDIT.to_json(),
        "items": names,
        "load_s": 3.0,
        "checkpoint_bytes": {"transformer": 800},
    }
    store.commit(folder, GENERATE, content)
    return GenerationSet.load(folder)


@pytest.fixture
def checkpoint(runs):
    folder = store.prepare("checkpoints", QUANTIZE)
    common = {"component": "transformer", "scheme": "W4A16", "parameters": 128}
    layers = [
        {**common, "name": name, "relative_error": error}
        for name, error in (("a", 0.1), ("b", 0.3), ("c", 0.2))
    ]
    content = {
        "bytes_before": {"transformer": 800, "vae": 100},
        "bytes_after": {"transformer": 200, "vae": 100},
        "layers": layers,
        "kept": {"transformer": {"d": "why"}},
        "tensor_parallel_sizes": [1, 2],
        "elapsed_s": 2.0,
    }
    store.commit(folder, QUANTIZE, content)
    return Checkpoint.load(folder)


def test_a_trajectory_survives_its_file(tmp_path):
    before = trajectory()
    before.save(tmp_path / "t.safetensors")
    after = Trajectory.load(tmp_path / "t.safetensors")
    assert after.latents.dtype == np.float32
    assert after.timesteps.dtype == np.float64
    np.testing.assert_array_equal(after.latents, before.latents)
    np.testing.assert_array_equal(after.timesteps, before.timesteps)
    assert len(after.latents) == len(after.timesteps) + 1


def test_a_generation_without_a_trajectory_says_why_and_what_to_do(tmp_path):
    item = generation(tmp_path / "one", seed=7)
    (tmp_path / "one" / "trajectory.safetensors").unlink()
    with pytest.raises(StoreError, match=r"pictures alone.*draw the same with workbench.generate"):
        _ = item.trajectory
    assert item.image.size == (8, 8)


def test_a_generation_survives_its_folder(tmp_path):
    before = generation(tmp_path / "one", seed=7)
    after = Generation.load(tmp_path / "one")
    assert after == before
    assert hashlib.sha256(after.image.tobytes()).hexdigest() == after.sha256
    np.testing.assert_array_equal(after.trajectory.latents, trajectory().latents)


def test_an_image_stays_readable_after_its_file_is_gone(tmp_path):
    item = generation(tmp_path / "one", seed=7)
    assert item.image.getpixel((0, 0)) == (7, 7, 7)
    (tmp_path / "one" / "image.png").unlink()
    assert item.image.getpixel((7, 7)) == (7, 7, 7)


def test_an_audit_survives_json():
    assert Audit.from_json(AUDIT.to_json()) == AUDIT


def test_an_audit_counts_parameters_not_layers():
    assert AUDIT.coverage == pytest.approx(0.75)
    assert AUDIT.kept == (KEPT,)
    assert AUDIT.kernels == {"ReferenceFp8Kernel": 1}
    assert len(AUDIT.table()) == 2


def test_an_audit_reads_as_one_line():
    assert str(AUDIT) == (
        "FP8: partly; 1 x ReferenceFp8Kernel (reference kernels: right numerics, no speed); "
        "75% of linear parameters quantized"
    )


def test_at_16_bit_all_kernels_are_shown():
    plain = replace(AUDIT, layers=(KEPT, KEPT), requested="BF16", verdict="as requested")
    assert plain.kernels == {"torch linear": 2}
    assert plain.reference_kernels is False


def test_an_audit_of_nothing_covers_nothing():
    assert replace(AUDIT, layers=()).coverage == 0


def test_a_generation_set_survives_its_folder(generations):
    assert wb.load(generations.key) == generations
    assert generations.spec == GENERATE
    assert generations.audit == AUDIT
    assert generations.precision == "FP8"
    assert generations.key == GENERATE.key
    assert generations.provenance["packages"]


def test_a_generation_set_iterates_in_order(generations):
    assert len(generations) == 2
    assert [item.seed for item in generations] == [0, 1]
    assert generations[1].seed == 1
    assert generations.table()["seed"].tolist() == [0, 1]


def test_a_missing_picture_is_not_passed_over(generations):
    (generations.path / "cup-1" / "generation.json").unlink()
    with pytest.raises((StoreError, FileNotFoundError), match=r"generation\.json"):
        wb.load(generations.key)


def test_a_first_frame_that_was_left_behind_is_missed(runs):
    spec = GENERATE.but(launch=LaunchSpec(model=MODEL), seeds=(0,), images=("ab" * 32,))
    folder = store.prepare("generations", spec)
    generation(folder / "0000-0", 0)
    content = {"audit": AUDIT.to_json(), "items": ["0000-0"], "load_s": 3.0, "checkpoint_bytes": {}}
    store.commit(folder, spec, content)
    drawn = GenerationSet.load(folder)
    for ask in (lambda: _again(drawn[0], spec), lambda: wb.noise_floor(drawn)):
        with pytest.raises(StoreError, match=r"0000.png is missing.* copy inputs/ too, or gen"):
            ask()
    (folder / "inputs").mkdir()
    Image.new("RGB", (8, 8), "red").save(folder / "inputs" / "0000.png")
    assert drawn.input_images["a cup"].getpixel((0, 0)) == (255, 0, 0)


def test_a_checkpoint_survives_its_folder(checkpoint):
    assert wb.load(checkpoint.key) == checkpoint
    assert checkpoint.model == MODEL
    assert checkpoint.recipe == RECIPE
    assert checkpoint.key == QUANTIZE.key
    assert checkpoint.layers[0] == LayerError(
        component="transformer", name="a", scheme="W4A16", relative_error=0.1, parameters=128
    )


def test_layers_are_shown_worst_first(checkpoint):
    assert checkpoint.layer_table()["name"].tolist() == ["b", "c", "a"]


def test_sizes_are_shown_with_their_ratio(checkpoint):
    table = checkpoint.size_table().set_index("component")
    assert table.loc["transformer", "ratio"] == pytest.approx(0.25)
    assert table.loc["vae", "ratio"] == 1


def test_printing_a_record_stays_short(checkpoint, generations):
    assert "LayerError" not in repr(checkpoint)
    assert "packages" not in repr(generations)


@pytest.mark.parametrize("record", [trajectory(), LINEAR, AUDIT], ids=lambda r: type(r).__name__)
def test_records_are_frozen(record):
    field = next(iter(record.__dataclass_fields__))
    with pytest.raises(FrozenInstanceError):
        setattr(record, field, None)
