"""What a plan calls valid really launches and draws, on CPU, as far as its processes go."""

from __future__ import annotations

from pathlib import Path

import pytest

import workbench as wb
from workbench.serve.layouts import describe

STEPS = wb.Sampling(num_inference_steps=2)
ALONE = wb.Parallelism()
TP, U, CFG, VAE = (
    "tensor_parallel_size",
    "ulysses_degree",
    "cfg_parallel_size",
    "vae_patch_parallel_size",
)
OF_TWO = [wb.Parallelism(**{name: 2, VAE: n}) for name in (TP, U, CFG) for n in (1, 2)]
OF_FOUR = [
    wb.Parallelism(**{TP: 2, CFG: 2}),
    wb.Parallelism(**{U: 2, CFG: 2, VAE: 4}),
]


def test_these_are_all_valid_ones_of_two_workers(tiny_qwen: Path) -> None:
    plan = wb.plan(str(tiny_qwen), gpus=2, gpu_memory_gib=1, device="cpu")
    assert {one.parallelism for one in plan.valid} == {ALONE, *OF_TWO}
    wider = wb.plan(str(tiny_qwen), gpus=4, gpu_memory_gib=1, device="cpu")
    assert set(OF_FOUR) <= {one.parallelism for one in wider.valid}


@pytest.mark.slow
@pytest.mark.parametrize("layout", [ALONE, *OF_TWO, *OF_FOUR], ids=describe)
def test_it_launches(tiny_qwen: Path, runs: Path, layout: wb.Parallelism) -> None:
    with wb.launch(str(tiny_qwen), parallelism=layout) as engine:
        drawn = engine.generate("a teapot", sampling=STEPS)
    assert engine.audit.world_sizes["world"] == layout.world_size
    assert len(drawn) == 1
