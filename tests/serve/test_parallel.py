"""Real worker processes: tensor parallelism and CFG-parallel, in request mode and in step mode.

What they draw is held against one worker's, and the distance against the floor: a repeat of one
worker's request is the same to the bit on CPU, so the floor is what tensor parallelism alone
changes, which adds up in another order.
"""

from pathlib import Path

import numpy as np
import psutil
import pytest

import workbench as wb
from workbench.records import Checkpoint, GenerationSet
from workbench.zoo.tiny import build_tiny

STEPS = wb.Sampling(num_inference_steps=3)
TP2 = wb.Parallelism(tensor_parallel_size=2)
CFG2 = wb.Parallelism(cfg_parallel_size=2)
PRODUCTS = [
    {"ulysses_degree": 2},
    {"tensor_parallel_size": 2, "cfg_parallel_size": 2},
    {"ulysses_degree": 2, "cfg_parallel_size": 2, "vae_patch_parallel_size": 4},
    {"tensor_parallel_size": 2, "ulysses_degree": 2},
]
ROUNDINGS = 2.0
"""Two results that err by as much, each in its own way, lie at most twice that apart."""


@pytest.fixture(scope="module")
def four_heads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """So that tensor parallelism leaves each rank two, which Ulysses can share out."""
    return build_tiny("qwen-image", tmp_path_factory.mktemp("models") / "four", heads=4)


@pytest.fixture(scope="module")
def alone(four_heads: Path, shared_runs: Path) -> GenerationSet:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(shared_runs))
        return wb.generate(str(four_heads), "a teapot", sampling=STEPS)


@pytest.fixture(scope="module")
def floor(four_heads: Path, alone: GenerationSet, shared_runs: Path) -> float:
    """Relative error of the final latents that tensor parallelism alone makes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(shared_runs))
        split = wb.generate(str(four_heads), "a teapot", sampling=STEPS, parallelism=TP2)
    error = _error(split, alone)
    assert 0 < error < 0.03
    return error


def test_a_repeat_of_one_worker_is_the_same_to_the_bit(sets: dict[str, GenerationSet]) -> None:
    assert _error(sets["BF16 repeat"], sets["BF16"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("degrees", PRODUCTS, ids="x".join)
def test_a_product_of_layouts_draws_what_one_worker_does(
    four_heads: Path, alone: GenerationSet, floor: float, runs: Path, degrees: dict[str, int]
) -> None:
    layout = wb.Parallelism(**degrees)
    result = wb.generate(str(four_heads), "a teapot", sampling=STEPS, parallelism=layout)
    assert result.audit.world_sizes == {
        "world": layout.world_size,
        "tensor_parallel": layout.tensor_parallel_size,
        "cfg_parallel": layout.cfg_parallel_size,
        "ulysses": layout.ulysses_degree,
        "ring": 1,
    }
    # On the CPU looked at, those with tensor parallelism lie at the floor itself, Ulysses at 0.
    within = ROUNDINGS * floor if layout.tensor_parallel_size > 1 else floor
    assert _error(result, alone) <= within
    pixels = [np.asarray(one[0].image, dtype=np.float64) for one in (result, alone)]
    assert np.abs(pixels[0] - pixels[1]).mean() < 2  # of 255
    assert not _workers()


@pytest.mark.parametrize("step_execution", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_cfg_parallel_draws_the_same_to_the_bit(
    tiny_qwen: Path, sets: dict[str, GenerationSet], runs: Path, step_execution: bool
) -> None:
    """Each worker predicts one branch as one worker would, so not even the rounding differs."""
    options = {"parallelism": CFG2, "step_execution": step_execution}
    result = wb.generate(str(tiny_qwen), "a teapot", sampling=STEPS, **options)
    assert result.audit.world_sizes["world"] == result.audit.world_sizes["cfg_parallel"] == 2
    latents = (one[0].trajectory.latents for one in (result, sets["BF16"]))
    np.testing.assert_array_equal(*latents)
    assert result[0].sha256 == sets["BF16"][0].sha256
    assert not _workers()


@pytest.mark.slow
def test_tensor_parallel_steps_draw_what_tensor_parallel_requests_do(
    four_heads: Path, alone: GenerationSet, floor: float, runs: Path
) -> None:
    options = {"parallelism": TP2, "step_execution": True}
    result = wb.generate(str(four_heads), "a teapot", sampling=STEPS, **options)
    assert result.audit.world_sizes["world"] == result.audit.world_sizes["tensor_parallel"] == 2
    assert _error(result, alone) == pytest.approx(floor)
    assert not _workers()


@pytest.mark.parametrize(
    "precision",
    [
        pytest.param("FP8", marks=pytest.mark.slow),
        pytest.param("INT8", marks=pytest.mark.slow),
        "W4A16",
    ],
)
def test_low_precision_runs_in_tensor_parallel_workers(
    tiny_qwen: Path,
    w4a16: Checkpoint,
    sets: dict[str, GenerationSet],
    runs: Path,
    precision: str,
) -> None:
    model, options = (w4a16, {}) if precision == "W4A16" else (str(tiny_qwen), {})
    if precision != "W4A16":
        options["quantization"] = precision.lower()
    result = wb.generate(model, "a teapot", sampling=STEPS, parallelism=TP2, **options)
    assert list(result.audit.kernels) == list(sets[precision].audit.kernels)
    errors = [x.weight_error for x in result.audit.layers if x.weight_error and x.quantized]
    assert len(errors) > 8  # rank 0's shards, each against its part of the source
    whole = sum(layer.parameters for layer in sets[precision].audit.layers if layer.quantized)
    half = sum(layer.parameters for layer in result.audit.layers if layer.quantized)
    assert whole / 2 <= half < whole  # txt_mod, where quantized, is replicated
    # Scales of a shard are its own, so 8-bit products round anew; those of W4A16 only add up anew.
    of_the_precision = _error(sets[precision], sets["BF16"])
    assert _error(result, sets[precision]) < ROUNDINGS * of_the_precision


def _error(result: GenerationSet, wanted: GenerationSet) -> float:
    """Of the final latents of the first picture, relative, from the same noise."""
    (first, *_, final), (noise, *_, exact) = (s[0].trajectory.latents for s in (result, wanted))
    np.testing.assert_array_equal(first, noise)
    return float(np.linalg.norm(final - exact) / np.linalg.norm(exact))


def _workers() -> list[str]:
    children = psutil.Process().children(recursive=True)
    return [child.name() for child in children if "Worker" in " ".join(child.cmdline())]
