"""What must stop a ModelOpt quantization: runs that fail, layers never reached, broken weights."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

import workbench as wb
from workbench.errors import QuantizationFailed
from workbench.quant import calibration, modelopt, pipelines
from workbench.quant.fakes import FAKES
from workbench.quant.plan import make_plan
from workbench.recipes import Calibration, QuantRecipe

TWO = Calibration(
    prompts=("a teapot on a table", "a red car"), num_inference_steps=2, height=64, width=64
)


def recipe(scheme: str) -> QuantRecipe:
    return QuantRecipe(
        method="modelopt", scheme=scheme, calibration=TWO if scheme == "FP8" else None
    )


def test_a_failing_calibration_run_fails_the_whole(
    tiny_qwen: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any) -> dict[str, Any]:
        return {"height": 128, "width": 128, "output_type": "no such type", "prompt_embeds": 3}

    monkeypatch.setattr(pipelines, "call_arguments", broken)
    with pytest.raises(QuantizationFailed, match=r"prompt 1 of 2, 'a teapot on a table', failed"):
        wb.quantize(str(tiny_qwen), recipe("FP8"))
    assert list((runs / "checkpoints").iterdir()) == []


def test_a_layer_that_no_run_reaches_is_named(tiny_qwen: Path) -> None:
    plan = make_plan(tiny_qwen, recipe("FP8"))
    models = {"transformer": pipelines.load_pipeline(tiny_qwen).transformer}
    with pytest.raises(QuantizationFailed, match=r"reached transformer\.transformer_blocks\.0\.at"):
        modelopt.observe(models, plan, lambda: None)


def test_a_weight_that_is_not_finite_is_named(tmp_path: Path, tiny_wan: Path, runs: Path) -> None:
    shutil.copytree(tiny_wan, tmp_path / "nan")
    file = next((tmp_path / "nan" / "transformer_2").glob("*.safetensors"))
    tensors = load_file(file)
    tensors["blocks.0.ffn.net.2.weight"][3, 5] = float("nan")
    save_file(tensors, file)
    with pytest.raises(
        QuantizationFailed, match=r"weight_scale of blocks\.0\.ffn\.net\.2 came out"
    ):
        wb.quantize(str(tmp_path / "nan"), recipe("FP8_PER_CHANNEL_PER_TOKEN"))


def test_plain_recording_names_a_layer_that_was_not_reached_too(
    tiny_qwen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "run_prompts", lambda *_: None)
    plan = make_plan(tiny_qwen, recipe("FP8"))
    with pytest.raises(QuantizationFailed, match=r"no calibration run reached transformer\.transf"):
        calibration.calibrate(tiny_qwen, recipe("FP8"), plan, fakes=FAKES)
