"""Every scheme and option of AutoRound, really run; what is not packed is the source's own."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from workbench.errors import QuantizationFailed, SpecError
from workbench.quant.autoround_cures import _balance, _joined
from workbench.quant.autoround_mixed import rounded
from workbench.recipes import Calibration, QuantRecipe
from workbench.records import Checkpoint
from workbench.schemes import SCHEMES
from workbench.zoo.inventory import linears

PROMPTS = ("a teapot", "a red car")
CALIBRATION = Calibration(prompts=PROMPTS, num_inference_steps=2, height=64, width=64)


def made(source: Path, scheme: str, **changes: Any) -> Checkpoint:
    return wb.quantize(str(source), QuantRecipe(method="auto-round", scheme=scheme, **changes))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    files = sorted(folder.glob("*.safetensors"))
    return {name: one for file in files for name, one in load_file(file).items()}


def assert_the_rest_is_the_sources(source: Path, written: Path, layers: set[str]) -> None:
    """Bit for bit and in its dtype: every tensor but the weights of the packed layers."""
    before, after = weights(source), weights(written)
    own = {name for name in before if name.removesuffix(".weight") not in layers}
    assert all(before[name].dtype == after[name].dtype for name in own)
    assert all(torch.equal(before[name], after[name]) for name in own)
    parts = {name.rpartition(".")[2] for name in after.keys() - own}
    assert parts <= {"qweight", "qzeros", "scales", "weight", "weight_packed", "weight_scale"}
    assert any(name.endswith(".bias") and name.removesuffix(".bias") in layers for name in own)


@pytest.mark.parametrize(
    ("scheme", "options"),
    [
        pytest.param("W4A16", {"group_size": 32}, marks=pytest.mark.slow),
        pytest.param("W8A16", {}, marks=pytest.mark.slow),
        pytest.param("MXFP8", {}, marks=pytest.mark.slow),
        ("MXFP4", {"ignore": ("attn1",)}),
        ("MIXED", {"layer_schemes": {"ffn": "W8A16", "transformer_2.blocks.0.attn1": "BF16"}}),
    ],
)
def test_each_scheme_is_written_and_leaves_the_rest_alone(
    scheme: str, options: dict[str, Any], tiny_wan: Path, runs: Path
) -> None:
    """The two experts may differ: AutoRound then runs once for each."""
    checkpoint = made(tiny_wan, scheme, **options)
    for component in ("transformer", "transformer_2"):
        stored = linears(checkpoint.path / component)
        packed = {name: one.scheme for name, one in stored.items() if one.quantized}
        assert_the_rest_is_the_sources(
            tiny_wan / component, checkpoint.path / component, set(packed)
        )
        if scheme != "MIXED":
            assert set(packed.values()) == {scheme}
            continue
        assert packed["blocks.0.ffn.net.2"] == "W8A16"
        assert packed["blocks.0.attn2.to_q"] == "W4A16"
        assert ("blocks.0.attn1.to_q" in packed) == (component == "transformer")
    for layer in checkpoint.layers:
        low, high = SCHEMES[layer.scheme].error
        assert low < layer.relative_error < high
    config = json.loads((checkpoint.path / "transformer/config.json").read_text())
    assert "amp" not in config["quantization_config"], "nothing of the host is written"


@pytest.mark.slow
def test_scales_searched_on_data_count_every_prompt(tiny_wan: Path, runs: Path) -> None:
    searched = made(tiny_wan, "W4A16", disable_opt_rtn=False, calibration=CALIBRATION)
    nearest = made(tiny_wan, "W4A16")
    assert searched.recipe.label == "W4A16 opt-RTN"
    assert [one.name for one in searched.layers] == [one.name for one in nearest.layers]
    assert [one.relative_error for one in searched.layers] != [
        one.relative_error for one in nearest.layers
    ]


def test_sensitivity_chooses_who_gets_eight_bits(tiny_qwen: Path, runs: Path) -> None:
    checkpoint = made(tiny_qwen, "MIXED", effective_bits=6, calibration=CALIBRATION)
    stored = sum(SCHEMES[one.scheme].bits * one.parameters for one in checkpoint.layers)
    bits = stored / sum(one.parameters for one in checkpoint.layers)
    assert 5 < bits <= 6
    assert {one.scheme for one in checkpoint.layers} == {"W4A16", "W8A16"}
    assert (checkpoint.path / "sensitivity.json").is_file()


@pytest.mark.slow
def test_an_expert_that_calibration_never_reaches_is_an_error(
    tiny_wan: Path, tmp_path: Path, runs: Path
) -> None:
    shutil.copytree(tiny_wan, tmp_path / "wan")
    index = json.loads((tmp_path / "wan/model_index.json").read_text())
    index["boundary_ratio"] = 1e-4  # every step belongs to the first expert
    (tmp_path / "wan/model_index.json").write_text(json.dumps(index))
    with pytest.raises(QuantizationFailed, match="transformer_2 never ran within num_inference"):
        made(tmp_path / "wan", "W4A16", iters=1, calibration=CALIBRATION)
    assert not list((runs / "checkpoints").iterdir())


@pytest.mark.parametrize(
    "options", [{"iters": 1}, pytest.param({"disable_opt_rtn": False}, marks=pytest.mark.slow)]
)
def test_a_failing_calibration_run_fails_the_whole(
    options: dict[str, Any], tiny_qwen: Path, tmp_path: Path, runs: Path
) -> None:
    shutil.copytree(tiny_qwen, tmp_path / "model")
    scheduler = tmp_path / "model/scheduler/scheduler_config.json"
    same = {"base_image_seq_len": 256, "max_image_seq_len": 256}  # the pipeline divides by 0
    scheduler.write_text(json.dumps(json.loads(scheduler.read_text()) | same))
    with pytest.raises(QuantizationFailed, match="starting 1 calibration prompts"):
        made(tmp_path / "model", "W4A16", calibration=CALIBRATION, **options)
    assert not list((runs / "checkpoints").iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheme": "MXFP8", "ignore": ("attn",)}, "builds every linear of the blocks"),
        ({"scheme": "W4A16", "lr": 1e-3}, "lr=0.001 is the step of a tuning"),
        ({"scheme": "W4A16", "gradient_accumulate_steps": 4}, "is of a tuning; set iters"),
        ({"scheme": "NVFP4"}, "auto-round does not write NVFP4"),
    ],
)
def test_options_without_effect_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        QuantRecipe(method="auto-round", **options)


def test_rounding_to_integers_by_hand() -> None:
    """The largest of a group becomes -8 steps; 0.5 / 0.125 = 4 of them, 0.3 rounds to 2."""
    group = torch.zeros(1, 32)
    group[0, :3] = torch.tensor([1.0, 0.5, 0.3])
    assert rounded(group, 4, 32)[0, :4].tolist() == [1.0, 0.5, 0.25, 0.0]
    assert rounded(torch.zeros(1, 32), 4, 32).abs().sum() == 0


def test_both_streams_weigh_the_same_in_the_loss() -> None:
    image, text = [torch.full((1, 4, 8), 2.0)], [torch.full((1, 3, 8), 100.0)]
    scale = _balance(image, text)
    assert scale == pytest.approx(0.02)
    assert torch.allclose(_joined(image[0], text[0], scale), torch.full((1, 7, 8), 2.0))
