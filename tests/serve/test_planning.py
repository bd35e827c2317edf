"""A plan: layouts, their reasons, what fits, and what other schemes would change."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sparse_pipelines import VAE, bf16, qwen_image, save, w4a16

import workbench as wb
from workbench.checkpoints import Checkpoint
from workbench.errors import ModelNotFound, NotSupportedHere, SpecError
from workbench.serve.guards import check_launch
from workbench.serve.plan_result import Plan
from workbench.specs import LaunchSpec, ModelRef, Parallelism
from workbench.zoo.families import family_of


@pytest.fixture
def qwen(tmp_path: Path) -> Path:
    return qwen_image(tmp_path / "qwen")


def plan(folder: Path, **options: object) -> Plan:
    return wb.plan(str(folder), **{"gpus": 8, "gpu_memory_gib": 80, **options})


def test_a_model_of_sixty_layers_takes_no_time(tmp_path: Path) -> None:
    """Processor time, as other work may share the machine."""
    folder = qwen_image(tmp_path / "qwen", layers=60)
    taken = []
    for _ in range(7):
        started = time.process_time()
        found = plan(folder)
        taken.append(time.process_time() - started)
    assert len(found) == 290
    assert min(taken) < 0.05


def test_every_layout_within_the_devices_is_there_once(qwen: Path) -> None:
    layouts = [layout.parallelism for layout in plan(qwen, gpus=4)]
    assert len(set(layouts)) == len(layouts)
    assert {one.world_size for one in layouts} == {1, 2, 3, 4}
    assert all(one.vae_patch_parallel_size <= one.world_size for one in layouts)
    alone, *_ = plan(qwen, gpus=4)
    assert (alone.parallelism, alone.replicas) == (Parallelism(), 4)


@pytest.mark.parametrize(
    ("heads", "sizes", "reason"),
    [
        (30, {"tensor_parallel_size": 4}, "=4 does not divide the 30 attention heads"),
        (52, {"tensor_parallel_size": 8}, "=8 does not divide the 52 attention heads"),
        (24, {"ulysses_degree": 8}, None),
        (24, {"tensor_parallel_size": 3}, None),
        (24, {"ulysses_degree": 7}, "=7 does not divide"),
        (30, {"tensor_parallel_size": 2, "ulysses_degree": 2}, "rank has 15"),
    ],
)
def test_heads(tmp_path: Path, heads: int, sizes: dict[str, int], reason: str | None) -> None:
    found = plan(qwen_image(tmp_path / "m", heads=heads, width=7680, inner=30720))
    layout = found.layout(**sizes)
    assert layout.valid is (reason is None)
    assert reason is None or reason in layout.reasons[0]


@pytest.mark.parametrize(("gpus", "nearest"), [(4, 3), (8, 5)])
def test_the_nearest_layout_is_valid_and_within_the_devices(
    tmp_path: Path, gpus: int, nearest: int
) -> None:
    found = plan(qwen_image(tmp_path / "m", heads=30, width=3840, inner=15360), gpus=gpus)
    layout = found.layout(tensor_parallel_size=4)
    assert layout.nearest == Parallelism(tensor_parallel_size=nearest)
    assert all(found.layout(one.nearest).valid for one in found if not one.valid)
    assert all(one.nearest is None for one in found.valid)


def test_a_group_of_scales_is_not_cut(tmp_path: Path) -> None:
    shape = {"heads": 32, "width": 4096, "inner": 11008}
    found = plan(qwen_image(tmp_path / "m", packing=w4a16, **shape))
    (first, *_) = found.layout(tensor_parallel_size=4).reasons
    assert "img_mlp.net.2 in W4A16 has 11008 input channels" in first
    assert "multiple of 128" in first
    assert found.layout(tensor_parallel_size=2).valid
    assert plan(qwen_image(tmp_path / "b", **shape)).layout(tensor_parallel_size=4).valid


def test_cfg_parallel_without_two_branches_says_so(qwen: Path) -> None:
    drawn = wb.Sampling(true_cfg_scale=1.0, negative_prompt=" ")
    layout = plan(qwen, sampling=drawn).layout(cfg_parallel_size=2)
    assert "true_cfg_scale=1.0" in layout.reasons[0]
    assert layout.nearest == Parallelism()
    assert plan(qwen).layout(cfg_parallel_size=2).valid  # the family's own guidance is 4


def test_eight_devices_on_four(qwen: Path) -> None:
    found = plan(qwen, gpus=4)
    layout = found.layout(tensor_parallel_size=2, ulysses_degree=2, cfg_parallel_size=2)
    assert layout.replicas == 0
    assert "needs 8 GPUs and 4 are here" in layout.reasons[0]
    offered = layout.reasons[0].partition("these fit: ")[2].split(", or ")
    assert len(offered) == 3
    for one in offered:
        sizes = dict(pair.split("=") for pair in one.split(" x "))
        assert found.layout(**sizes).valid
    assert layout.nearest.world_size == 4


@pytest.mark.parametrize("size", [0, -1, "two", True])
def test_no_number_of_devices(qwen: Path, size: object) -> None:
    with pytest.raises(SpecError, match="tensor_parallel_size"):
        plan(qwen).layout(tensor_parallel_size=size)
    with pytest.raises(SpecError, match="gpus"):
        plan(qwen, gpus=size)


def test_digits_are_numbers(qwen: Path) -> None:
    found = plan(qwen, gpus="4")
    assert found.layout(tensor_parallel_size="2") == found.layout(tensor_parallel_size=2)
    assert len(found) == len(plan(qwen, gpus=4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gpu_memory_gib": 0}, "gpu_memory_gib"),
        ({"gpus": 65}, "gpus"),
        ({"device": "tpu"}, "device"),
        ({"quantization": "int4"}, "quantization"),
        ({"sampling": wb.Sampling(num_frames=5)}, "draws images"),
    ],
)
def test_what_nothing_can_serve_is_refused(qwen: Path, options: dict, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        plan(qwen, **options)


def test_a_folder_without_weights_is_refused(qwen: Path) -> None:
    (qwen / "transformer" / "model.safetensors").unlink()
    with pytest.raises(ModelNotFound, match="no weights of transformer"):
        plan(qwen)


def test_a_quantized_model_is_not_quantized_again(tmp_path: Path) -> None:
    folder = qwen_image(tmp_path / "m", packing=w4a16)
    with pytest.raises(SpecError, match="W4A16 already"):
        plan(folder, quantization="fp8")


def test_a_checkpoint_is_planned_as_its_recipe_packed_it(tmp_path: Path) -> None:
    folder = qwen_image(tmp_path / "m", packing=w4a16)
    checkpoint = Checkpoint(
        path=folder,
        model=ModelRef("embedded:qwen-image"),
        recipe=wb.QuantRecipe(method="auto-round", scheme="W4A16"),
        bytes_before={},
        bytes_after={},
        layers=(),
        kept={},
        tensor_parallel_sizes=(1, 2),
        elapsed_s=0.0,
        provenance={},
    )
    found = wb.plan(checkpoint, gpus=2, gpu_memory_gib=80)
    assert "in W4A16" in found.title
    assert found.layout().memory == plan(folder, gpus=2).layout().memory


def test_a_video_has_one_frame_more_than_a_multiple_of_four(tmp_path: Path) -> None:
    linears = bf16("blocks.0.attn1.to_q", 256, 256) | bf16("blocks.0.ffn.net.2", 256, 512)
    save(tmp_path / "transformer", linears, {"num_attention_heads": 2})
    save(tmp_path / "vae", bf16("decoder", 4, 4), VAE)
    save(tmp_path / "text_encoder", bf16("shared", 4, 4), {})
    (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": "WanPipeline"}))
    asked, drawn = (plan(tmp_path, sampling=wb.Sampling(num_frames=n)) for n in (80, 81))
    assert asked.title == drawn.title
    assert "81 frames" in drawn.title
    assert [note for note in asked.notes if "num_frames=80 is not 4k+1, so 81 frames" in note]
    assert not drawn.notes
    assert drawn.layout(ulysses_degree=2).valid


def test_the_ring_is_for_gpus(qwen: Path) -> None:
    assert plan(qwen).layout(ring_degree=2).valid
    layout = plan(qwen, device="cpu").layout(ring_degree=2)
    assert layout.reasons == ("ring_degree=2 runs CUDA kernels; on CPU use ulysses_degree",)
    assert layout.nearest.ring_degree == 1


def test_a_family_that_is_not_drawn_is_planned_with_a_note(tmp_path: Path) -> None:
    found = plan(qwen_image(tmp_path / "m", pipeline="OvisImagePipeline"))
    assert "workbench.launch refuses ovis-image" in str(found)
    layout = found.layout(tensor_parallel_size=2)
    assert "one tensor-parallel rank" in layout.reasons[0]


def test_valid_on_cpu_is_what_a_launch_lets_through(
    tiny_qwen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.serve.guards.gpus", list)
    for layout in plan(tiny_qwen, gpus=4, device="cpu"):
        spec = LaunchSpec(model=ModelRef(str(tiny_qwen)), parallelism=layout.parallelism)
        if layout.valid:
            check_launch(spec, family_of(tiny_qwen), tiny_qwen)
            continue
        with pytest.raises((SpecError, NotSupportedHere)):
            check_launch(spec, family_of(tiny_qwen), tiny_qwen)


def test_planning_takes_no_torch() -> None:
    code = (
        "import sys, workbench as wb\n"
        "wb.plan('embedded:qwen-image', gpus=2, gpu_memory_gib=8)\n"
        "print(*{'torch', 'vllm', 'vllm_omni', 'diffusers'} & set(sys.modules), callable(wb.plan))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]


def test_the_embedded_model_is_planned() -> None:
    found = wb.plan(wb.ModelRef("embedded:qwen-image"), gpus=2, gpu_memory_gib=80)
    assert found.smallest().parallelism == Parallelism()
