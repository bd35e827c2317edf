"""Requests that cannot work are refused by name, before anything loads."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.errors import NotSupportedHere, SpecError
from workbench.recipes import QuantRecipe
from workbench.serve import checkpoint_guards, guards
from workbench.serve.checkpoint_guards import check_checkpoint
from workbench.serve.expected import Expected
from workbench.serve.guards import check_launch, check_prompts, check_sampling, check_steps
from workbench.serve.plan_guards import check_sequence
from workbench.serve.planning import plan
from workbench.specs import LaunchSpec, ModelRef, Parallelism, Sampling
from workbench.zoo.component_configs import vae_of
from workbench.zoo.families import family_of
from workbench.zoo.inventory import StoredLinear
from workbench.zoo.weights import TensorFacts

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


@pytest.fixture
def headers_only(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Stand-ins for the files of a checkpoint: (name, scheme, shape, group) of each linear."""

    def use(*linears: tuple[str, str, tuple[int, int], int]) -> None:
        def facts(shape: tuple[int, ...]) -> TensorFacts:
            return TensorFacts(file=Path("f"), dtype="I32", shape=shape)

        members = [
            StoredLinear(
                name=name,
                scheme=scheme,
                shape=shape,
                tensors={"qweight": facts(shape), "scales": facts((shape[1] // group, shape[0]))},
            )
            for name, scheme, shape, group in linears
        ]
        expected = {
            f"transformer.{one.name}": Expected(scheme=one.scheme, members=(one,))
            for one in members
        }
        monkeypatch.setattr(checkpoint_guards, "expectations", lambda *_: expected)

    return use


def test_groups_must_fit_the_shard(tiny_qwen: Path, headers_only: Callable[..., None]) -> None:
    block = "transformer_blocks.0."
    headers_only(
        (f"{block}attn.to_q", "W4A16", (512, 384), 128),  # outputs are split: 256 a rank
        (f"{block}attn.to_out.0", "W4A16", (384, 512), 128),  # inputs are split: 256 a rank
    )
    arguments = {"family": family_of(tiny_qwen), "folder": tiny_qwen, "devices": []}
    check_checkpoint(_stored(2), **arguments)
    with pytest.raises(SpecError, match=r"to_out\.0 in W4A16 has 512 input channels.* at 1, 2, 4:"):
        check_checkpoint(_stored(8), **arguments)
    check_checkpoint(LaunchSpec(model=MODEL), **arguments)  # 16 bit: nothing to cut


@pytest.mark.parametrize(
    ("scheme", "device", "refused"),
    [("FP8", A100, True), ("FP8", H200, False), ("NVFP4", A100, False), ("W4A16", A100, False)],
)
def test_a_scheme_needs_a_gpu_with_a_kernel_for_it(
    tiny_qwen: Path,
    headers_only: Callable[..., None],
    scheme: str,
    device: dict[str, object],
    refused: bool,
) -> None:
    headers_only(("transformer_blocks.0.attn.to_q", scheme, (256, 256), 128))
    arguments = {"family": family_of(tiny_qwen), "folder": tiny_qwen, "devices": [device]}
    if not refused:
        check_checkpoint(_stored(1), **arguments)
        return
    with pytest.raises(NotSupportedHere, match=r"needs compute capability 8\.9, and NVIDIA A100"):
        check_checkpoint(_stored(1), **arguments)


def _stored(size: int) -> LaunchSpec:
    layout = Parallelism(tensor_parallel_size=size)
    return LaunchSpec(model=MODEL, stored="some", parallelism=layout)


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
        check_sampling(spec, family_of(tiny_qwen), tiny_qwen, sampling)


def test_a_second_guidance_is_of_a_second_transformer(
    tiny_ti2v: Path, tiny_qwen: Path, tiny_wan: Path
) -> None:
    sampling = Sampling(guidance_scale=4.0, guidance_scale_2=1.0, negative_prompt="")
    spec = LaunchSpec(model=MODEL)
    for folder in (tiny_ti2v, tiny_qwen):
        with pytest.raises(SpecError, match=r"guidance_scale_2=1\.0 is the guidance of a second"):
            check_sampling(spec, family_of(folder), folder, sampling)
        with pytest.raises(SpecError, match=r"guidance_scale_2=1\.0 is the guidance of a second"):
            plan(str(folder), gpus=1, gpu_memory_gib=8, sampling=sampling)
    check_sampling(spec, family_of(tiny_wan), tiny_wan, sampling)
    both = LaunchSpec(model=MODEL, parallelism=Parallelism(cfg_parallel_size=2))
    with pytest.raises(SpecError, match=r"guidance_scale_2=1\.0 with negative_prompt=''"):
        check_sampling(both, family_of(tiny_wan), tiny_wan, sampling)
    check_sampling(both, family_of(tiny_wan), tiny_wan, sampling.but(guidance_scale_2=3.0))


def test_an_empty_prompt_of_a_video_is_refused(tiny_wan: Path, tiny_qwen: Path) -> None:
    for runtime in ("vllm-omni", "vllm-omni-server"):
        with pytest.raises(SpecError, match="the prompt '' is empty"):
            check_prompts(LaunchSpec(model=MODEL, runtime=runtime), family_of(tiny_wan), ("a", ""))
    check_prompts(LaunchSpec(model=MODEL, runtime="diffusers"), family_of(tiny_wan), ("",))
    check_prompts(LaunchSpec(model=MODEL), family_of(tiny_wan), (" ",))
    check_prompts(LaunchSpec(model=MODEL), family_of(tiny_qwen), ("",))


def test_compiling_on_cpu_needs_a_compiler(
    tiny_qwen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "gpus", list)
    monkeypatch.setenv("PATH", "")
    spec = LaunchSpec(model=MODEL, enforce_eager=False)
    with pytest.raises(NotSupportedHere, match=r"g\+\+"):
        check_launch(spec, family_of(tiny_qwen), tiny_qwen)


def test_one_step_of_a_stretched_schedule_is_refused(tiny_qwen: Path, tiny_wan: Path) -> None:
    one = Sampling(num_inference_steps=1)
    with pytest.raises(SpecError, match=r"shift_terminal=0\.02, which takes 2 steps or more"):
        check_steps(tiny_qwen, one)
    check_steps(tiny_qwen, Sampling(num_inference_steps=2))
    check_steps(tiny_wan, one)


def test_a_picture_whose_tokens_a_ring_cannot_share_is_refused(tiny_wan: Path) -> None:
    spec = LaunchSpec(model=ModelRef(str(tiny_wan)), parallelism=Parallelism(ring_degree=2))
    odd, even = Sampling(height=48, width=48), Sampling(height=64, width=48)
    spatial = vae_of(tiny_wan / "vae").spatial
    assert (48 // spatial // 2) ** 2 % 2 == 1
    with pytest.raises(SpecError, match="tokens do not divide among 2 sequence ranks"):
        check_sequence(spec, family_of(tiny_wan), tiny_wan, odd)
    check_sequence(spec, family_of(tiny_wan), tiny_wan, even)


@pytest.mark.parametrize(("entry", "says"), [
    ({"expand_timesteps": True}, "call it WanPipeline"),
    ({"transformer_2": [None, None]}, "names a transformer_2 that is null"),
])  # fmt: skip
def test_an_index_that_the_engine_would_misread_is_refused(
    tiny_i2v: Path, tmp_path: Path, entry: dict, says: str
) -> None:
    index = json.loads((tiny_i2v / "model_index.json").read_text())
    (tmp_path / "model_index.json").write_text(json.dumps({**index, **entry}))
    spec = LaunchSpec(model=ModelRef(str(tmp_path)))
    with pytest.raises(SpecError, match=says):
        check_launch(spec, family_of(tmp_path), tmp_path)
