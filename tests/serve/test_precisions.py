"""What each precision draws, in the real engine on CPU."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from workbench.pixels import pixel_digest
from workbench.records import GenerationSet
from workbench.serve import decode

pytestmark = pytest.mark.usefixtures("shared_runs")
KERNELS = {  # vLLM's own where this CPU has the instructions for it, else ours
    "BF16": ("vLLM CPU linear",),
    "FP8": ("ReferenceFp8LinearKernel",),
    "INT8": ("CPUInt8ScaledMMLinearKernel", "ReferenceInt8LinearKernel"),
    "W4A16": ("CPUWNA16LinearKernel", "ReferenceWNA16LinearKernel"),
}
VERDICTS = {"BF16": "as requested", "FP8": "partly", "INT8": "partly", "W4A16": "as requested"}


def test_bf16_twice_is_bit_identical(sets: dict[str, GenerationSet]) -> None:
    for first, second in zip(sets["BF16"], sets["BF16 repeat"], strict=True):
        assert first.sha256 == second.sha256
        np.testing.assert_array_equal(first.trajectory.latents, second.trajectory.latents)


def test_every_precision_draws_its_own_picture(sets: dict[str, GenerationSet]) -> None:
    for index in range(2):
        assert len({sets[name][index].sha256 for name in KERNELS}) == 4


@pytest.mark.parametrize(("precision", "most"), [("INT8", 0.05), ("FP8", 0.08), ("W4A16", 0.25)])
def test_low_precision_stays_near_the_reference(
    sets: dict[str, GenerationSet], precision: str, most: float
) -> None:
    for item, exact in zip(sets[precision], sets["BF16"], strict=True):
        final, wanted = item.trajectory.latents[-1], exact.trajectory.latents[-1]
        assert 0 < np.linalg.norm(final - wanted) / np.linalg.norm(wanted) < most


@pytest.mark.parametrize("precision", KERNELS)
def test_the_audit_names_the_kernel_and_what_stayed_in_16_bit(
    sets: dict[str, GenerationSet], precision: str
) -> None:
    audit = sets[precision].audit
    (kernel,) = audit.kernels
    assert kernel in KERNELS[precision]
    assert audit.verdict == VERDICTS[precision]
    assert audit.reference_kernels == kernel.startswith("Reference")
    assert all(layer.by_design for layer in audit.kept)
    assert not audit.missing
    assert audit.attention_backend == "SDPA"
    if precision != "BF16":
        assert any("img_mod" in layer.name and layer.reason for layer in audit.kept)


def test_most_multiplications_run_quantized(sets: dict[str, GenerationSet]) -> None:
    tokens = (128 // 16) ** 2  # of a picture, once a step and guidance branch
    for name in ("FP8", "INT8", "W4A16"):
        audit = sets[name].audit
        (layer,) = (x for x in audit.layers if x.name.endswith("blocks.0.img_mlp.net.2"))
        assert layer.rows == tokens * 3 * 2
        assert 0 < audit.coverage < audit.flops_coverage < 1
        assert audit.bytes_saved > 0
    assert sets["BF16"].audit.flops_coverage == 0
    assert sets["BF16"].audit.bytes_saved == 0


def test_the_weight_saved_is_what_the_transformer_is_smaller_by(
    sets: dict[str, GenerationSet],
) -> None:
    whole = sets["BF16"].audit.weight_bytes["transformer"]
    for name in ("FP8", "INT8", "W4A16"):
        audit = sets[name].audit
        smaller = whole - audit.weight_bytes["transformer"]
        assert smaller == pytest.approx(audit.bytes_saved, rel=0.02)


def test_smaller_weights_are_held_in_less_memory(sets: dict[str, GenerationSet]) -> None:
    held = {name: sets[name].audit.weight_bytes["transformer"] for name in KERNELS}
    assert held["BF16"] > held["FP8"] > held["W4A16"]
    assert held["BF16"] > held["INT8"] > held["W4A16"]
    linears = {n: sum(x.weight_bytes for x in sets[n].audit.layers if x.quantized) for n in KERNELS}
    parameters = sum(x.parameters for x in sets["FP8"].audit.layers if x.quantized)
    assert linears["FP8"] == pytest.approx(parameters, rel=0.01)  # a byte a weight, and scales


def test_peak_memory_is_that_of_the_request(sets: dict[str, GenerationSet]) -> None:
    weights = sum(sets["BF16"].audit.weight_bytes.values())
    for name in KERNELS:  # every one launched after the others, in this same process
        for item in sets[name]:
            assert 0.4 * weights < item.peak_memory_bytes < weights + 150e6


def test_a_trajectory_starts_at_noise_of_the_seed_and_has_one_latent_a_step(
    sets: dict[str, GenerationSet],
) -> None:
    first = sets["BF16"][0].trajectory
    assert first.latents.shape == (4, 1, 64, 64)
    assert first.latents.dtype == np.float32
    assert first.timesteps.shape == (3,)
    assert list(first.timesteps) == sorted(first.timesteps, reverse=True)
    for name in KERNELS:
        np.testing.assert_array_equal(sets[name][0].trajectory.latents[0], first.latents[0])
    assert abs(first.latents[0].std() - 1) < 0.05


def test_the_engine_agrees_with_plain_diffusers(
    sets: dict[str, GenerationSet], shared_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(shared_runs))
    spec = sets["BF16"].spec
    oracle = wb.generate(
        spec.launch.model, spec.prompts, sampling=spec.sampling, runtime="diffusers"
    )
    assert oracle.audit.verdict == "as requested"
    assert oracle.audit.attention_backend == "diffusers"
    for one, plain in zip(sets["BF16"], oracle, strict=True):
        np.testing.assert_allclose(one.trajectory.timesteps, plain.trajectory.timesteps, rtol=1e-5)
        np.testing.assert_array_equal(one.trajectory.latents[0], plain.trajectory.latents[0])
        final, wanted = one.trajectory.latents[-1], plain.trajectory.latents[-1]
        assert np.linalg.norm(final - wanted) / np.linalg.norm(wanted) < 0.02
        assert plain.peak_memory_bytes > sum(oracle.audit.weight_bytes.values()) / 2


def test_decoding_the_last_latent_gives_the_picture(sets: dict[str, GenerationSet]) -> None:
    one = sets["BF16"][0]
    spec = sets["BF16"].spec
    (picture,) = decode(spec.launch.model, one.trajectory.latents[-1:], spec.sampling)
    difference = np.abs(np.asarray(picture, float) - np.asarray(one.image, float))
    assert difference.mean() < 1.5


def test_the_digest_is_that_of_the_stored_pixels(sets: dict[str, GenerationSet]) -> None:
    assert all(pixel_digest([item.image]) == item.sha256 for item in sets["INT8"])


@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling on CPU needs g++")
@pytest.mark.slow
def test_a_compiled_transformer_draws_what_an_eager_one_does(
    sets: dict[str, GenerationSet], tiny_qwen: Path, runs: Path
) -> None:
    spec = sets["BF16"].spec
    compiled = wb.generate(
        str(tiny_qwen), spec.prompts, sampling=spec.sampling, enforce_eager=False
    )
    assert compiled.audit.flops_coverage is None  # a compiled graph calls no hooks
    final, wanted = (s[0].trajectory.latents[-1] for s in (compiled, sets["BF16"]))
    assert 0 < np.linalg.norm(final - wanted) / np.linalg.norm(wanted) < 0.05
