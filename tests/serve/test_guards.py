"""Requests that cannot work are refused by name, before anything loads."""

from pathlib import Path

import pytest

from workbench.errors import NotSupportedHere, SpecError
from workbench.recipes import QuantRecipe
from workbench.serve import guards
from workbench.serve.guards import check_launch, check_sampling
from workbench.specs import LaunchSpec, ModelRef, Parallelism, Sampling
from workbench.zoo.families import family_of

MODEL = ModelRef("embedded:qwen-image")
H200 = {"name": "NVIDIA H200", "compute_capability": [9, 0]}
A100 = {"name": "NVIDIA A100", "compute_capability": [8, 0]}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"parallelism": Parallelism(tensor_parallel_size=3)}, SpecError, r"use one of \[1, 2\]"),
        ({"parallelism": Parallelism(ulysses_degree=3)}, SpecError, "ulysses_degree=3"),
        ({"attention_backend": "FLASH_ATTN"}, NotSupportedHere, "TORCH_SDPA"),
        ({"parallelism": Parallelism(ring_degree=2)}, NotSupportedHere, "ring_degree=2"),
        (
            {"recipe": QuantRecipe(method="auto-round", scheme="W4A16", group_size=128)},
            None,
            None,
        ),
    ],
)
def test_on_cpu(
    tiny_qwen: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, object],
    error: type[Exception] | None,
    message: str | None,
) -> None:
    monkeypatch.setattr(guards, "gpus", list)
    spec = LaunchSpec(model=MODEL, **options)
    if error is None:
        check_launch(spec, family_of(tiny_qwen), tiny_qwen)
        return
    with pytest.raises(error, match=message):
        check_launch(spec, family_of(tiny_qwen), tiny_qwen)


@pytest.mark.parametrize(
    ("devices", "options", "message"),
    [
        ([H200], {"parallelism": Parallelism(tensor_parallel_size=2)}, "needs 2 GPUs and 1 are"),
        ([A100], {"quantization": "fp8"}, "needs compute capability 8.9"),
    ],
)
def test_on_gpu(
    tiny_qwen: Path,
    monkeypatch: pytest.MonkeyPatch,
    devices: list[dict[str, object]],
    options: dict[str, object],
    message: str,
) -> None:
    monkeypatch.setattr(guards, "gpus", lambda: devices)
    with pytest.raises(NotSupportedHere, match=message):
        check_launch(LaunchSpec(model=MODEL, **options), family_of(tiny_qwen), tiny_qwen)


def test_groups_must_fit_the_shard(tiny_qwen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "gpus", list)
    monkeypatch.setattr(guards, "MOST_CPU_WORKERS", 4)
    recipe = QuantRecipe(method="auto-round", scheme="W4A16")
    spec = LaunchSpec(model=MODEL, recipe=recipe, parallelism=Parallelism(tensor_parallel_size=2))
    check_launch(spec, family_of(tiny_qwen), tiny_qwen)  # 256 channels, 128 a rank
    facts = {"num_attention_heads": 2, "attention_head_dim": 96}
    with pytest.raises(SpecError, match="group_size=128 does not divide the 96"):
        guards._check_groups(spec, "transformer", facts)


def test_step_execution_is_for_pipelines_that_step(tiny_flux: Path) -> None:
    with pytest.raises(SpecError, match="step_execution=True"):
        check_launch(LaunchSpec(model=MODEL, step_execution=True), family_of(tiny_flux), tiny_flux)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(true_cfg_scale=1.0, negative_prompt=" "),
        Sampling(true_cfg_scale=4.0),
        Sampling(negative_prompt=" "),
    ],
)
def test_cfg_parallel_needs_two_branches(tiny_qwen: Path, sampling: Sampling) -> None:
    spec = LaunchSpec(model=MODEL, parallelism=Parallelism(cfg_parallel_size=2))
    with pytest.raises(SpecError, match="cfg_parallel_size=2"):
        check_sampling(spec, family_of(tiny_qwen), sampling)


def test_compiling_on_cpu_needs_a_compiler(
    tiny_qwen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "gpus", list)
    monkeypatch.setenv("PATH", "")
    spec = LaunchSpec(model=MODEL, enforce_eager=False)
    with pytest.raises(NotSupportedHere, match=r"g\+\+"):
        check_launch(spec, family_of(tiny_qwen), tiny_qwen)
