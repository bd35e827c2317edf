"""What a plan calls valid really launches and draws, on CPU, as far as its processes go."""

from __future__ import annotations

from pathlib import Path

import pytest

import workbench as wb
from workbench.serve.layouts import describe

MODEL = "embedded:qwen-image"
SMALL = wb.Sampling(num_inference_steps=2, height=64, width=64)
PLAN = wb.plan(MODEL, gpus=4, gpu_memory_gib=1, device="cpu", sampling=SMALL)
VALID = [one.parallelism for one in PLAN.valid]
TP, U, CFG, VAE = (
    "tensor_parallel_size",
    "ulysses_degree",
    "cfg_parallel_size",
    "vae_patch_parallel_size",
)


def test_the_embedded_model_has_layouts_of_one_two_and_four_workers() -> None:
    """A plan that calls none valid would launch none below."""
    of_two = [wb.Parallelism(**{name: 2, VAE: n}) for name in (TP, U, CFG) for n in (1, 2)]
    of_four = [
        wb.Parallelism(**{name: 2, CFG: 2, VAE: n}) for name in (TP, U) for n in (1, 2, 3, 4)
    ]
    assert set(VALID) == {wb.Parallelism(), *of_two, *of_four}


@pytest.mark.slow
@pytest.mark.parametrize("layout", VALID, ids=describe)
def test_it_launches(runs: Path, layout: wb.Parallelism) -> None:
    with wb.launch(MODEL, parallelism=layout) as engine:
        drawn = engine.generate("a teapot", sampling=SMALL)
    assert engine.audit.world_sizes == {
        "world": layout.world_size,
        "tensor_parallel": layout.tensor_parallel_size,
        "cfg_parallel": layout.cfg_parallel_size,
        "ulysses": layout.ulysses_degree,
        "ring": layout.ring_degree,
    }
    assert drawn[0].image.size == (64, 64)
