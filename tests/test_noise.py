"""The reference against itself, in the real engine on CPU."""

from pathlib import Path

import pytest

import workbench as wb
from workbench.errors import ComparisonRefused, SpecError
from workbench.eval.floor import NoiseFloor
from workbench.records import GenerationSet

SAMPLING = wb.Sampling(num_inference_steps=2)


@pytest.fixture
def reference(tiny_qwen: Path, runs: Path) -> GenerationSet:
    return wb.generate(str(tiny_qwen), "a teapot", seeds=(0, 1), sampling=SAMPLING)


@pytest.mark.slow
def test_each_condition_has_its_floor(tiny_qwen: Path, reference: GenerationSet) -> None:
    split = wb.Parallelism(tensor_parallel_size=2)
    floor = wb.noise_floor(
        reference, attention_backends=["FLASH_ATTN"], parallelisms=[split], diffusers=True
    )
    assert list(floor.measured) == ["repeat", "tensor_parallel_size=2", "diffusers"]
    table = floor.table().set_index("condition")
    assert table.loc["repeat", "identical"] == 2
    assert table.loc["repeat", "relative_l2_max"] == 0
    assert table.loc["repeat", "says"].startswith("bit by bit the same in all 2 pairs")
    assert 0 < table.loc["tensor_parallel_size=2", "relative_l2_max"] < 0.05
    assert 0 < table.loc["diffusers", "relative_l2_max"] < 0.05
    assert "use TORCH_SDPA" in table.loc["attention_backend=FLASH_ATTN", "says"]

    alone = wb.generate(
        str(tiny_qwen), "a teapot", seeds=(0, 1), sampling=SAMPLING, quantization="fp8"
    )
    compared = wb.compare(reference, alone, floor=floor)
    assert compared.floor is floor.measured["repeat"]
    assert compared.against_floor == "above"
    apart = wb.generate(
        str(tiny_qwen), "a teapot", seeds=(0, 1), sampling=SAMPLING, parallelism=split
    )
    across = wb.compare(reference, apart, floor=floor, across=("parallelism",))
    assert across.floor is floor.measured["tensor_parallel_size=2"]
    assert across.against_floor == "inside the floor"
    other = NoiseFloor(reference=reference, measured={"repeat": floor.repeat})
    assert (
        wb.compare(reference, apart, floor=other, across=("parallelism",)).against_floor
        == "no floor measured"
    )


def test_a_request_is_enough(tiny_qwen: Path, reference: GenerationSet) -> None:
    floor = wb.noise_floor(reference.spec, repeats=2)
    assert list(floor.measured) == ["repeat", "repeat 2"]
    assert floor.reference.key == reference.key


def test_a_quantized_reference_is_refused(reference: GenerationSet) -> None:
    spec = reference.spec.but(launch=reference.spec.launch.but(quantization="fp8"))
    with pytest.raises(SpecError, match="the reference runs FP8"):
        wb.noise_floor(spec)


def test_a_floor_without_a_repeat_says_so(reference: GenerationSet) -> None:
    floor = wb.noise_floor(reference, repeats=0)
    with pytest.raises(ComparisonRefused, match="no repeat of the reference"):
        _ = floor.repeat
