"""Real ModelOpt on tiny pipelines. Random weights: the figures check mechanics, not quality."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import workbench as wb
from workbench.errors import StoreError
from workbench.quant.packing import dequantize, relative_error
from workbench.recipes import Calibration, QuantRecipe
from workbench.records import Checkpoint
from workbench.schemes import SCHEMES
from workbench.zoo.inventory import linears
from workbench.zoo.names import canonical
from workbench.zoo.presets import preset_of

SIZE = {"num_inference_steps": 2, "height": 64, "width": 64}
CALIBRATION = Calibration(prompts=("a teapot on a table",), **SIZE)
STATIC = ("FP8", "NVFP4", "MIXED")
RULES = {"qwen-image": "attn", "flux": "attn", "wan": "attn1"}
Source = Callable[[str], Path]


def recipe(scheme: str, **changes: Any) -> QuantRecipe:
    calibration = CALIBRATION if scheme in STATIC else None
    return QuantRecipe(
        **{"method": "modelopt", "scheme": scheme, "calibration": calibration, **changes}
    )


@pytest.fixture(scope="session")
def sources(tiny_qwen: Path, tiny_flux: Path, tiny_wan: Path) -> dict[str, Path]:
    return {"qwen-image": tiny_qwen, "flux": tiny_flux, "wan": tiny_wan}


@pytest.fixture(scope="session")
def made(sources: dict[str, Path], shared_runs: Path) -> Callable[..., Checkpoint]:
    def make(family: str, scheme: str, **changes: Any) -> Checkpoint:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("WORKBENCH_RUNS", str(shared_runs))
            return wb.quantize(str(sources[family]), recipe(scheme, **changes))

    return make


def config(checkpoint: Checkpoint, component: str = "transformer") -> dict[str, Any]:
    return json.loads((checkpoint.path / component / "config.json").read_text())[
        "quantization_config"
    ]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return {
        name: t
        for file in sorted(folder.glob("*.safetensors"))
        for name, t in load_file(file).items()
    }


@pytest.mark.parametrize(
    ("family", "scheme"),
    [
        pytest.param(
            family,
            scheme,
            marks=[] if family == "qwen-image" or scheme == "MIXED" else [pytest.mark.slow],
        )
        for family in ("qwen-image", "flux", "wan")
        for scheme in ("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "NVFP4", "MXFP8", "MIXED")
    ],
)
def test_every_scheme_of_every_family(
    family: str, scheme: str, made: Callable[..., Checkpoint], sources: dict[str, Path]
) -> None:
    """Stored as the scheme says, within its error band; all else is the source's, bit by bit."""
    rules = {"layer_schemes": {RULES[family]: "FP8"}} if scheme == "MIXED" else {}
    checkpoint = made(family, scheme, **rules)
    preset = preset_of(family)
    for layer in checkpoint.layers:
        low, high = SCHEMES[layer.scheme].error
        assert low < layer.relative_error < high
    for component in ("transformer", "transformer_2")[: 2 if family == "wan" else 1]:
        before = weights(sources[family] / component)
        stored = {canonical(preset, n): o for n, o in linears(checkpoint.path / component).items()}
        written = weights(checkpoint.path / component)
        quantized = {
            one.name: one.scheme for one in checkpoint.layers if one.component == component
        }
        assert quantized == {n: o.scheme for n, o in stored.items() if o.quantized}
        for name, layer in quantized.items():
            check_stored(
                stored[name].name, written, SCHEMES[layer].scales, before[f"{name}.weight"]
            )
        same = [name for name in before if name in written and name.endswith("weight")]
        same = [n for n in same if n.removesuffix(".weight") not in quantized]
        assert same
        assert all(torch.equal(before[name], written[name]) for name in same)


def check_stored(
    name: str, written: dict[str, torch.Tensor], scales: tuple[str, ...], before: torch.Tensor
) -> None:
    assert {key for key in written if key.startswith(f"{name}.")} - {f"{name}.bias"} == {
        f"{name}.{part}" for part in ("weight", *scales)
    }
    for part in scales:
        scale = written[f"{name}.{part}"]
        if scale.dtype == torch.float8_e4m3fn:
            codes = scale.view(torch.uint8)
            assert not ((codes & 0x7F) == 0x7F).any()
            assert (codes > 0).all()
            assert scale.shape == (before.shape[0], before.shape[1] // 16)
        elif scale.dtype == torch.uint8:
            assert scale.shape == (before.shape[0], before.shape[1] // 32)
        else:
            assert scale.dtype == torch.float32
            assert (scale > 0).all()
            assert scale.shape in ((), (before.shape[0],))


def test_fp8_scales_are_the_largest_values(
    made: Callable[..., Checkpoint], tiny_qwen: Path
) -> None:
    """The oracle: plain maxima of the source's weights, and of inputs watched by other hooks."""
    checkpoint = made("qwen-image", "FP8")
    written, before = weights(checkpoint.path / "transformer"), weights(tiny_qwen / "transformer")
    block = "transformer_blocks.1"
    own = before[f"{block}.img_mlp.net.2.weight"].abs().max().float() / 448
    assert torch.equal(written[f"{block}.img_mlp.net.2.weight_scale"], own)
    fused = [f"{block}.attn.{part}" for part in ("to_q", "to_k", "to_v")]
    largest = max(before[f"{name}.weight"].abs().max().float() for name in fused) / 448
    assert all(torch.equal(written[f"{name}.weight_scale"], largest) for name in fused)
    seen = wb.activation_ranges(str(tiny_qwen), CALIBRATION).groupby("name").amax.max()
    for name in (layer.name for layer in checkpoint.layers):
        assert float(written[f"{name}.input_scale"]) == pytest.approx(seen[name] / 448, rel=1e-6)


def test_members_of_a_fused_layer_share_their_nvfp4_scales(
    made: Callable[..., Checkpoint],
) -> None:
    written = weights(made("flux", "NVFP4").path / "transformer")
    for part in ("weight_scale_2", "input_scale"):
        scales = [
            written[f"single_transformer_blocks.0.attn.{n}.{part}"]
            for n in ("to_q", "to_k", "to_v")
        ]
        assert torch.equal(scales[0], scales[1])
        assert torch.equal(scales[0], scales[2])


def test_the_same_recipe_gives_the_same_bytes(
    made: Callable[..., Checkpoint], tiny_wan: Path, runs: Path
) -> None:
    again = wb.quantize(str(tiny_wan), recipe("NVFP4")).path
    first = made("wan", "NVFP4").path
    for component in ("transformer", "transformer_2"):
        file = f"{component}/diffusion_pytorch_model.safetensors"
        assert (first / file).read_bytes() == (again / file).read_bytes()


def test_both_experts_have_scales_of_their_own(made: Callable[..., Checkpoint]) -> None:
    checkpoint = made("wan", "FP8")
    one, two = (weights(checkpoint.path / c) for c in ("transformer", "transformer_2"))
    assert set(one) == set(two)
    scales = [name for name in one if name.endswith("input_scale")]
    assert len(scales) == 10
    assert any(one[name] != two[name] for name in scales)
    steps = checkpoint.range_table().groupby("component").step.unique().map(sorted).to_dict()
    assert steps == {"transformer": [0], "transformer_2": [1]}


def test_all_linears_store_in_fp8_what_the_engine_runs_in_16_bit(
    made: Callable[..., Checkpoint], tiny_qwen: Path
) -> None:
    checkpoint = made("qwen-image", "FP8", all_linears=True)
    found = linears(checkpoint.path / "transformer")
    assert all(one.scheme == "FP8" for one in found.values())
    assert len(found) == 34
    assert checkpoint.bytes_after["transformer"] < 0.52 * checkpoint.bytes_before["transformer"]
    written = weights(checkpoint.path / "transformer")
    scale = written["transformer_blocks.0.img_mod.1.weight_scale"]
    assert torch.equal(scale.bfloat16().float(), scale), "the engine dequantizes with that"
    parts = {p: written[f"proj_out.{p}"] for p in ("weight", "weight_scale", "input_scale")}
    source = weights(tiny_qwen / "transformer")["proj_out.weight"]
    assert 0.01 < relative_error(dequantize(parts, "FP8"), source) < 0.05


def test_the_second_expert_keeps_what_the_engine_would_not_dequantize(
    made: Callable[..., Checkpoint],
) -> None:
    checkpoint = made("wan", "FP8_PER_CHANNEL_PER_TOKEN", all_linears=True)
    schemes = {
        component: linears(checkpoint.path / component)["proj_out"].scheme
        for component in ("transformer", "transformer_2")
    }
    assert schemes == {"transformer": "FP8_PER_CHANNEL_PER_TOKEN", "transformer_2": "BF16"}
    assert "transformer alone" in checkpoint.kept["transformer_2"]["proj_out"]


def test_shards_stay_shards(tmp_path: Path, tiny_flux: Path, runs: Path) -> None:
    import shutil

    from diffusers import FluxTransformer2DModel

    model = FluxTransformer2DModel.from_pretrained(tiny_flux / "transformer", dtype=torch.bfloat16)
    shutil.copytree(tiny_flux, tmp_path / "flux", ignore=shutil.ignore_patterns("transformer"))
    model.save_pretrained(tmp_path / "flux" / "transformer", max_shard_size="4MB")
    folder = wb.quantize(str(tmp_path / "flux"), recipe("MXFP8")).path / "transformer"
    index = json.loads((folder / "diffusion_pytorch_model.safetensors.index.json").read_text())
    on_disk = {name: f.name for f in folder.glob("*.safetensors") for name in load_file(f)}
    assert index["weight_map"] == on_disk
    assert len(set(on_disk.values())) > 2
    assert index["metadata"]["total_size"] == sum(t.nbytes for t in weights(folder).values())


def test_tables_that_were_not_measured_are_said_to_be_missing(
    made: Callable[..., Checkpoint],
) -> None:
    checkpoint = made("qwen-image", "MXFP8")
    with pytest.raises(StoreError, match="comes with scheme='MIXED' with effective_bits"):
        checkpoint.sensitivity_table()
    with pytest.raises(StoreError, match="activation_ranges"):
        checkpoint.range_table()
