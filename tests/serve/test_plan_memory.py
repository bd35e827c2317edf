"""The estimate: what is divided and what is whole, and the one measurement there is."""

from __future__ import annotations

import json
import warnings
from contextlib import nullcontext
from pathlib import Path

import pytest
from sparse_pipelines import bf16, qwen_image, save

import workbench as wb
from workbench.errors import NotSupportedHere, SpecError
from workbench.serve import guards, plan_guards
from workbench.serve.guards import check_launch
from workbench.serve.plan_memory import CONTEXT, GIB
from workbench.specs import LaunchSpec, ModelRef, Parallelism
from workbench.zoo.families import family_of

RESULTS = Path(__file__).parents[2] / "docs/results/h200-embedded-qwen-image.json"
GPU = {"name": "NVIDIA L4", "compute_capability": [8, 9]}


def memory(folder: Path, sampling: wb.Sampling | None = None, **sizes: int) -> dict:
    found = wb.plan(str(folder), gpus=8, gpu_memory_gib=80, sampling=sampling)
    return found.layout(**sizes).memory


def test_linears_are_divided_and_modulation_is_not(tmp_path: Path) -> None:
    width, inner = 256, 1024
    folder = qwen_image(tmp_path / "m", layers=1, heads=2, width=width, inner=inner)
    one = memory(folder)["transformer"]
    rank, same = memory(folder, tensor_parallel_size=2)["transformer"]
    divided = 8 * width * width + 4 * width * inner  # attention, and two feed-forwards
    columns = 6 * width + 2 * inner  # biases; those of row-parallel linears are whole
    assert one[0] - rank == divided + columns  # half of two bytes each
    assert rank == same
    modulation = 2 * (6 * width * width + 6 * width)
    norms, outside, row_biases = 128, 64 * width, 4 * width
    assert one[0] == 2 * (divided + columns + modulation + norms + outside + row_biases)


def test_encoders_and_vae_are_whole_on_every_rank(tmp_path: Path) -> None:
    folder = qwen_image(tmp_path / "m")
    found = memory(folder, tensor_parallel_size=4)
    assert found["text_encoder"] == (2 * 16384 * 18000,) * 4  # the vision tower is thrown away
    assert found["vae"] == (2 * 96 * 96 * 27,) * 4


def test_the_t5_of_flux_is_divided(tmp_path: Path) -> None:
    folder = tmp_path / "flux"
    block = "transformer_blocks.0.attn"
    linears = bf16(f"{block}.to_q", 256, 256) | bf16(f"{block}.to_out.0", 256, 256)
    save(folder / "transformer", linears, {"num_attention_heads": 2})
    encoder = {"encoder.block.0.wo.weight": ("BF16", (64, 64)), "norm.weight": ("BF16", (64,))}
    save(folder / "text_encoder_2", encoder, {"num_heads": 4})
    (folder / "model_index.json").write_text(json.dumps({"_class_name": "FluxPipeline"}))
    assert memory(folder)["text_encoder_2"] == (2 * (64 * 64 + 64),)
    assert memory(folder, tensor_parallel_size=2)["text_encoder_2"] == (64 * 64 + 2 * 64,) * 2


def test_ulysses_divides_the_activations_of_large_pictures(tmp_path: Path) -> None:
    folder = qwen_image(tmp_path / "m")
    large = wb.Sampling(height=4096, width=4096)
    alone, two = (memory(folder, large, ulysses_degree=n)["activations"][0] for n in (1, 2))
    assert two <= alone
    small = memory(folder)["activations"][0]
    assert alone > 10 * small


def test_patches_leave_the_whole_picture_on_the_first_rank(tmp_path: Path) -> None:
    sizes = {"ulysses_degree": 4, "vae_patch_parallel_size": 4}
    first, second, *_ = memory(qwen_image(tmp_path / "m"), **sizes)["activations"]
    whole = memory(qwen_image(tmp_path / "n"), ulysses_degree=4)["activations"][0]
    assert second <= first < whole


def test_the_embedded_model_as_measured_on_one_h200() -> None:
    card = json.loads(RESULTS.read_text())
    (row,) = [one for one in card["summary"] if one["precision"] == "BF16"][:1]
    found = wb.plan("embedded:qwen-image", gpus=1, gpu_memory_gib=139).layout()
    estimate = found.needed - CONTEXT  # the allocator does not count the context
    assert estimate == pytest.approx(row["peak_memory_bytes"], rel=0.2)


@pytest.mark.parametrize(
    ("devices", "gib", "message"),
    [
        (4, 24, r"about \d+\.\d GiB of weights on each GPU, which has 24\.0 GiB; use tensor_par"),
        (1, 34, r"no layout on 1 of them fits, but FP8 \(online\) would on 1"),
        (1, 2, "at no scheme"),
    ],
)
def test_weights_beyond_the_gpu_are_refused_before_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devices: int, gib: int, message: str
) -> None:
    folder = qwen_image(tmp_path / "m", layers=60)
    monkeypatch.setattr(guards, "gpus", lambda: [{**GPU, "memory_bytes": gib * GIB}] * devices)
    spec = LaunchSpec(model=ModelRef(str(folder)))
    with pytest.raises(NotSupportedHere, match=message):
        check_launch(spec, family_of(folder), folder)


def test_weights_that_fit_are_let_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = qwen_image(tmp_path / "m", layers=60)
    monkeypatch.setattr(guards, "gpus", lambda: [{**GPU, "memory_bytes": 80 * GIB}])
    with warnings.catch_warnings(action="error"):
        check_launch(LaunchSpec(model=ModelRef(str(folder))), family_of(folder), folder)


@pytest.mark.parametrize(
    ("total", "used", "options", "message"),
    [
        (80, [50], {}, r"38\.5 GiB of weights on each GPU, of which GPU 0 has 30\.0 of 80\.0 GiB"),
        (80, [50], {}, r"or end what else runs there, as nvidia-smi lists it"),
        (80, [0, 50], {"tensor_parallel_size": 1}, None),
        (80, [0, 60], {"tensor_parallel_size": 2}, r"GPU 1 has 20\.0 of 80\.0 GiB free"),
    ],
)
def test_what_others_hold_is_not_free(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    total: int,
    used: list[int],
    options: dict[str, int],
    message: str | None,
) -> None:
    folder = qwen_image(tmp_path / "m", layers=60)
    monkeypatch.setattr(guards, "gpus", lambda: [{**GPU, "memory_bytes": total * GIB}] * len(used))
    monkeypatch.setattr(plan_guards, "gpu_bytes_used", lambda: [n * GIB for n in used])
    spec = LaunchSpec(model=ModelRef(str(folder)), parallelism=Parallelism(**options))
    with pytest.raises(NotSupportedHere, match=message) if message else nullcontext():
        check_launch(spec, family_of(folder), folder)


def test_an_estimate_beyond_the_gpu_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = qwen_image(tmp_path / "m", layers=60)
    monkeypatch.setattr(guards, "gpus", lambda: [{**GPU, "memory_bytes": 40 * GIB}])
    spec = LaunchSpec(model=ModelRef(str(folder)))
    with pytest.warns(UserWarning, match="a single device needs about") as caught:
        check_launch(spec, family_of(folder), folder)
    planned = wb.plan(str(folder), gpus=1, gpu_memory_gib=40)
    assert not planned.layout().fits
    (told,) = [str(one.message) for one in caught]
    assert f"needs about {planned.layout().needed / GIB:.1f} GiB" in told
    for part, (size,) in planned.layout().memory.items():
        assert f"{part} {size / GIB:.1f}" in told
    assert "1024 x 1024 pixels. This is an estimate" in told
    assert "FP8 (online) would on 1" in told
    many = spec.but(max_num_seqs=64, step_execution=True)
    with pytest.warns(UserWarning, match="64 drawn together"):
        check_launch(many, family_of(folder), folder)


def test_stepped_pictures_are_decoded_one_by_one(tmp_path: Path) -> None:
    folder = str(qwen_image(tmp_path / "m"))

    def activations(**options: object) -> int:
        found = wb.plan(folder, gpus=1, gpu_memory_gib=80, **options)
        return found.layout().memory["activations"][0]

    alone = activations()
    assert activations(step_execution=True) == activations(max_num_seqs=4, step_execution=True)
    assert alone == activations(step_execution=True)
    assert 3 * alone < activations(max_num_seqs=4) < 4 * alone
    assert alone < activations(max_num_seqs=16, step_execution=True) < 4 * alone


def test_a_feed_forward_that_is_cut_is_refused_at_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = qwen_image(tmp_path / "m", heads=24, inner=12290)
    monkeypatch.setattr(guards, "gpus", list)
    layout = Parallelism(tensor_parallel_size=4)
    spec = LaunchSpec(model=ModelRef(str(folder)), parallelism=layout)
    with pytest.raises(SpecError, match="12290 outputs"):
        check_launch(spec, family_of(folder), folder)
