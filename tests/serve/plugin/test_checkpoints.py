"""Checkpoints as others write them, made of ours by hand, in the engine's own worker."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from loading import Calls, first_calls, velocities, worker_of
from safetensors.torch import load_file, save_file

import workbench as wb
from workbench.recipes import Calibration, QuantRecipe
from workbench.zoo.names import canonical
from workbench.zoo.presets import preset_of

CALIBRATION = Calibration(prompts=("a teapot on a table",), num_inference_steps=2)
WEIGHTS = "diffusion_pytorch_model.safetensors"
Tensors = dict[str, torch.Tensor]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def calls(tiny_qwen: Path, tiny_flux: Path, tiny_wan: Path) -> Callable[[str], Calls]:
    """Inputs of a real prompt, recorded once a family."""
    folders, kept = {"qwen-image": tiny_qwen, "flux": tiny_flux, "wan": tiny_wan}, {}

    def of(family: str) -> Calls:
        if family not in kept:
            import diffusers

            pipeline = diffusers.DiffusionPipeline.from_pretrained(
                folders[family], torch_dtype=torch.bfloat16
            )
            kept[family] = first_calls(pipeline)[0]
        return kept[family]

    return of


def made(source: Path, scheme: str, shared_runs: Path, **rules: Any) -> Path:
    method = "auto-round" if scheme.startswith("W") else "modelopt"
    calibration = CALIBRATION if scheme in ("FP8", "NVFP4", "MIXED") else None
    recipe = QuantRecipe(method=method, scheme=scheme, calibration=calibration, **rules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(shared_runs))
        return wb.quantize(str(source), recipe).path


def rewritten(
    folder: Path,
    target: Path,
    change: Callable[[Tensors, dict[str, Any]], tuple[Tensors, dict[str, Any]]],
    components: tuple[str, ...] = ("transformer",),
) -> Path:
    """A copy whose tensors and quantization entry went through ``change``."""
    shutil.copytree(folder, target)
    for component in components:
        (file,) = (target / component).glob("*.safetensors")
        config = json.loads((target / component / "config.json").read_text())
        tensors, entry = change(load_file(file), config["quantization_config"])
        file.unlink()
        save_file(tensors, file)
        config["quantization_config"] = entry
        (target / component / "config.json").write_text(json.dumps(config))
    return target


def predicted(folder: Path, calls: Calls) -> dict[str, torch.Tensor]:
    with worker_of(folder) as worker:
        return velocities(worker, calls)


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, velocity in one.items():
        assert torch.isfinite(velocity).all()
        assert torch.equal(velocity, other[name]), name


def test_scales_of_wan_under_the_names_of_diffusers(
    tiny_wan: Path, calls: Callable[[str], Calls], shared_runs: Path, tmp_path: Path
) -> None:
    """As ModelOpt exports: stock vLLM-Omni drops ffn.net.0's scales, and mistakes either expert."""
    ours = made(tiny_wan, "FP8", shared_runs)
    preset = preset_of("wan")

    def foreign(tensors: Tensors, entry: dict[str, Any]) -> tuple[Tensors, dict[str, Any]]:
        return {canonical_tensor(preset, n): t for n, t in tensors.items()}, entry

    theirs = rewritten(ours, tmp_path / "foreign", foreign, ("transformer", "transformer_2"))
    names = load_file(next((theirs / "transformer").glob("*.safetensors")))
    assert "blocks.0.ffn.net.0.proj.weight_scale" in names
    assert_same(predicted(theirs, calls("wan")), predicted(ours, calls("wan")))


def canonical_tensor(preset: Any, name: str) -> str:
    owner, _, part = name.rpartition(".")
    return f"{canonical(preset, owner)}.{part}" if owner else name


def test_a_mixed_entry_that_names_only_linears_of_the_file(
    tiny_qwen: Path, calls: Callable[[str], Calls], shared_runs: Path, tmp_path: Path
) -> None:
    ours = made(tiny_qwen, "MIXED", shared_runs, layer_schemes={"attn": "NVFP4", "img_mlp": "FP8"})

    def foreign(tensors: Tensors, entry: dict[str, Any]) -> tuple[Tensors, dict[str, Any]]:
        layers = entry["quantized_layers"]
        kept = {n: v for n, v in layers.items() if f"{n}.weight" in tensors}
        assert len(kept) < len(layers)
        return tensors, {**entry, "quantized_layers": kept}

    theirs = rewritten(ours, tmp_path / "foreign", foreign)
    assert_same(predicted(theirs, calls("qwen-image")), predicted(ours, calls("qwen-image")))


def test_an_ignored_proj_out_of_flux_is_the_last_one_only(
    tiny_flux: Path, calls: Callable[[str], Calls], shared_runs: Path, tmp_path: Path
) -> None:
    ours = made(tiny_flux, "NVFP4", shared_runs)

    def foreign(tensors: Tensors, entry: dict[str, Any]) -> tuple[Tensors, dict[str, Any]]:
        return tensors, {**entry, "ignore": ["proj_out", "norm_out*", "x_embedder"]}

    theirs = rewritten(ours, tmp_path / "foreign", foreign)
    assert_same(predicted(theirs, calls("flux")), predicted(ours, calls("flux")))


def test_integers_of_compressed_tensors(
    tiny_qwen: Path, calls: Callable[[str], Calls], shared_runs: Path, tmp_path: Path
) -> None:
    """The same integers as AutoRound's, turned as llm-compressor stores them."""
    ours = made(tiny_qwen, "W4A16", shared_runs, ignore=("txt_mod",))  # only AutoRound's is packed

    def foreign(tensors: Tensors, entry: dict[str, Any]) -> tuple[Tensors, dict[str, Any]]:
        found: Tensors = {}
        for name, tensor in tensors.items():
            owner, _, part = name.rpartition(".")
            if part == "qweight":
                found[f"{owner}.weight_packed"] = tensor.t().contiguous()
                shape = [tensor.shape[1], tensor.shape[0] * 8]
                found[f"{owner}.weight_shape"] = torch.tensor(shape)
            elif part == "scales":
                found[f"{owner}.weight_scale"] = tensor.t().contiguous()
            elif part != "qzeros":
                found[name] = tensor
        linears = {n.rpartition(".")[0] for n, t in tensors.items() if n.endswith(".weight")}
        weights = {
            "num_bits": 4,
            "type": "int",
            "symmetric": True,
            "group_size": 128,
            "strategy": "group",
        }
        return found, {
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
            "quantization_status": "compressed",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
            "ignore": sorted(linears),
        }

    theirs = rewritten(ours, tmp_path / "foreign", foreign)
    assert_same(predicted(theirs, calls("qwen-image")), predicted(ours, calls("qwen-image")))


@pytest.mark.parametrize(
    ("scheme", "tensor"),
    [
        ("FP8", "attn.to_k.input_scale"),  # one of three that are loaded into one parameter
        ("FP8", "img_mlp.net.2.weight_scale"),
        ("NVFP4", "img_mlp.net.2.weight_scale_2"),
        ("NVFP4", "attn.to_out.0.input_scale"),
        ("MXFP8", "attn.to_v.weight_scale"),
    ],
)
def test_a_missing_scale_is_an_error_that_names_it(
    scheme: str, tensor: str, tiny_qwen: Path, shared_runs: Path, tmp_path: Path
) -> None:
    name = f"transformer_blocks.1.{tensor}"

    def without(tensors: Tensors, entry: dict[str, Any]) -> tuple[Tensors, dict[str, Any]]:
        del tensors[f"transformer_blocks.1.{tensor}"]
        return tensors, entry

    broken = rewritten(made(tiny_qwen, scheme, shared_runs), tmp_path / "broken", without)
    own = (("to_k.", "to_qkv."), ("to_v.", "to_qkv."), ("to_out.0", "to_out"))
    for part, engines in own:
        name = name.replace(part, engines)
    missing = rf"(no file holds|not initialized from checkpoint).*{name}"
    with pytest.raises(ValueError, match=missing), worker_of(broken):
        pass


def test_a_second_expert_stored_in_fp8_beyond_what_the_engine_quantizes(
    tiny_wan: Path, calls: Callable[[str], Calls], shared_runs: Path, tmp_path: Path
) -> None:
    """Dequantized as it is in the first: stock vLLM-Omni loads the numbers without their scale."""
    ours = made(tiny_wan, "FP8", shared_runs)

    def foreign(tensors: Tensors, entry: dict[str, Any]) -> tuple[Tensors, dict[str, Any]]:
        weight = tensors["proj_out.weight"].float()
        scale = (weight.abs().max() / 448).bfloat16().float()
        tensors["proj_out.weight"] = (weight / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        tensors["proj_out.weight_scale"] = scale
        return tensors, entry

    theirs = rewritten(ours, tmp_path / "foreign", foreign, ("transformer_2",))
    wanted = predicted(ours, calls("wan"))["transformer_2"]
    found = predicted(theirs, calls("wan"))["transformer_2"]
    assert 0 < torch.linalg.norm(found - wanted) / torch.linalg.norm(wanted) < 0.05


def test_the_engine_reports_the_scale_that_is_missing(
    tiny_qwen: Path, shared_runs: Path, runs: Path, tmp_path: Path
) -> None:
    def without(tensors: Tensors, entry: dict[str, Any]) -> tuple[Tensors, dict[str, Any]]:
        del tensors["transformer_blocks.0.attn.to_q.input_scale"]
        return tensors, entry

    broken = rewritten(made(tiny_qwen, "FP8", shared_runs), tmp_path / "broken", without)
    with pytest.raises(wb.errors.WorkbenchError, match=r"to_qkv\.input_scale|to_q\.input_scale"):
        wb.launch(str(broken))
