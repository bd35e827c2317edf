"""Real worker processes: tensor parallelism and CFG-parallel, in request mode and in step mode."""

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
    ({"tensor_parallel_size": 2, "cfg_parallel_size": 2}, 0.03),
    ({"ulysses_degree": 2}, 0.01),
    ({"ulysses_degree": 2, "cfg_parallel_size": 2, "vae_patch_parallel_size": 4}, 0.01),
    ({"tensor_parallel_size": 2, "ulysses_degree": 2}, 0.03),
]
"""Layout -> the largest relative error of its final latents against one worker's."""


@pytest.fixture(scope="module")
def four_heads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """So that tensor parallelism leaves each rank two, which Ulysses can share out."""
    return build_tiny("qwen-image", tmp_path_factory.mktemp("models") / "four", heads=4)


@pytest.fixture(scope="module")
def alone(four_heads: Path, shared_runs: Path) -> GenerationSet:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(shared_runs))
        return wb.generate(str(four_heads), "a teapot", sampling=STEPS)


@pytest.mark.slow
@pytest.mark.parametrize(("degrees", "most"), PRODUCTS, ids=["x".join(d) for d, _ in PRODUCTS])
def test_a_product_of_layouts_draws_what_one_worker_does(
    four_heads: Path, alone: GenerationSet, runs: Path, degrees: dict[str, int], most: float
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
    drawn, wanted = (one[0].trajectory.latents for one in (result, alone))
    np.testing.assert_array_equal(drawn[0], wanted[0])
    assert _error(drawn, wanted) < most
    pixels = [np.asarray(one[0].image, dtype=np.float64) for one in (result, alone)]
    assert np.abs(pixels[0] - pixels[1]).mean() < 2  # of 255
    assert not _workers()


@pytest.mark.parametrize(
    ("parallelism", "step_execution", "most"),
    [
        (CFG2, False, 0.01),
        pytest.param(CFG2, True, 0.01, marks=pytest.mark.slow),
        pytest.param(TP2, True, 0.03, marks=pytest.mark.slow),
    ],
)
def test_bf16_in_two_processes_draws_what_one_does(
    tiny_qwen: Path,
    sets: dict[str, GenerationSet],
    runs: Path,
    parallelism: wb.Parallelism,
    step_execution: bool,
    most: float,
) -> None:
    options = {"parallelism": parallelism, "step_execution": step_execution}
    result = wb.generate(str(tiny_qwen), "a teapot", sampling=STEPS, **options)
    assert result.audit.world_sizes["world"] == 2
    assert result.audit.world_sizes["tensor_parallel"] == parallelism.tensor_parallel_size
    assert result.audit.world_sizes["cfg_parallel"] == parallelism.cfg_parallel_size
    final, alone = (s[0].trajectory.latents for s in (result, sets["BF16"]))
    np.testing.assert_array_equal(final[0], alone[0])
    assert _error(final, alone) < most
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
    alone = sets[precision][0].trajectory.latents
    assert _error(result[0].trajectory.latents, alone) < 0.1


def _error(latents: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(latents[-1] - wanted[-1]) / np.linalg.norm(wanted[-1]))


def _workers() -> list[str]:
    children = psutil.Process().children(recursive=True)
    return [child.name() for child in children if "Worker" in " ".join(child.cmdline())]
