"""The literal command lines of the article, and what is asked instead where they cannot do."""

import logging
from pathlib import Path

import pytest

import workbench as wb
from workbench.errors import ModelNotFound, SpecError
from workbench.quant.command_line import parse
from workbench.quant.commands import PRESETS, from_options, preset
from workbench.recipes import Calibration, QuantRecipe
from workbench.specs import ModelRef

FLUX = """auto-round \\
  --model black-forest-labs/FLUX.1-dev \\
  --scheme W4A16 \\
  --batch_size 1 \\
  --disable_opt_rtn \\
  --dataset coco2014 \\
  --iters 0"""
WAN = """auto-round \\
  --model_name Wan-AI/Wan2.2-T2V-A14B-Diffusers \\
  --format auto_round \\
  --scheme W4A16 \\
  --iters 100 \\
  --nsamples 32 \\
  --batch_size 1 \\
  --num-inference-steps 3 \\
  --guidance-scale 5.0 \\
  --dataset coco2014 \\
  --output_dir Wan2.2-T2V-A14B-Diffusers-int4-AutoRound"""
OMNI = """auto-round \\
  --model Qwen/Qwen3-Omni-30B-A3B-Instruct \\
  --bits 4 \\
  --group_size 128 \\
  --format auto_round \\
  --iters 200 \\
  --lr 5e-3 \\
  --output_dir tmp_qwen3_omni_w4a16 \\
  --trust_remote_code"""
LINES = dict(zip(PRESETS, (FLUX, WAN, OMNI), strict=True))


def prompts(count: int) -> list[str]:
    return [f"a cat number {number}" for number in range(count)]


@pytest.mark.parametrize("name", PRESETS)
def test_the_presets_are_the_lines(name: str) -> None:
    options = parse(LINES[name])
    options.pop("output_dir", None)
    assert options == PRESETS[name]
    data = prompts(40)
    assert wb.recipe_from_command(LINES[name], dataset=data) == preset(name, dataset=data)


def test_flux_line_rounds_to_nearest_and_reads_no_data(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    model, recipe = wb.recipe_from_command(FLUX)
    assert model == ModelRef("black-forest-labs/FLUX.1-dev")
    assert recipe == QuantRecipe(method="auto-round", scheme="W4A16")
    assert "reads no data" in caplog.text


def test_wan_line_takes_the_users_prompts_at_the_size_that_is_served() -> None:
    data = prompts(40)
    _, recipe = wb.recipe_from_command(WAN, dataset=data, height=480, width=832, num_frames=81)
    assert recipe == QuantRecipe(
        method="auto-round",
        scheme="W4A16",
        iters=100,
        calibration=Calibration(
            prompts=tuple(data[:32]),
            num_inference_steps=3,
            guidance_scale=5.0,
            height=480,
            width=832,
            num_frames=81,
        ),
    )
    with pytest.raises(SpecError, match=r"'coco2014' would be downloaded.*prompts\.tsv"):
        wb.recipe_from_command(WAN)
    with pytest.raises(SpecError, match="nsamples=32, and dataset holds 3"):
        wb.recipe_from_command(WAN, dataset=prompts(3))


def test_omni_line_gives_bits_group_size_and_lr() -> None:
    model, recipe = wb.recipe_from_command(OMNI, dataset=["hello"])
    assert model == ModelRef("Qwen/Qwen3-Omni-30B-A3B-Instruct", trust_remote_code=True)
    assert (recipe.scheme, recipe.group_size, recipe.iters, recipe.lr) == ("W4A16", 128, 200, 5e-3)


def test_spellings_with_hyphen_underscore_and_equals_sign_are_one() -> None:
    for option in ("--num-inference-steps 3", "--num_inference_steps=3",
                   "--calib_num_inference_steps 3"):  # fmt: skip
        assert parse(f"auto-round --model a/b {option}")["num_inference_steps"] == 3
    for option in ("--model a/b-c", "--model_name a/b-c", "--model-name=a/b-c"):
        assert parse(f"auto-round {option}")["model"] == "a/b-c"


def test_without_iters_or_disable_opt_rtn_the_scales_are_searched() -> None:
    recipe = from_options(iters=0, dataset=["a cat"], ignore_layers="img_mlp, proj_out")
    assert not recipe.disable_opt_rtn
    assert recipe.ignore == ("img_mlp", "proj_out")
    assert from_options(dataset=["a cat"]).iters == 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "llm_compressor"}, "vLLM-Omni 0.30 loads AutoRound's auto_round"),
        ({"format": "auto_awq"}, "leave the format out"),
        ({"batch_size": 8}, "gradient_accumulate_steps"),
        ({"scheme": "NVFP4"}, "W4A16, W8A16, MXFP8, MXFP4; FP8 and NVFP4 come from"),
        ({"bits": 4, "scheme": "W8A16"}, "bits=4 and scheme='W8A16' differ"),
        ({"bits": 3}, "scheme='W3A16' is not among"),
        ({"learning_rate": 1}, "no option learning_rate; there are .*lr"),
        ({"scheme": "MXFP4", "group_size": 128}, "leave group_size out"),
    ],
)
def test_what_would_not_load_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        from_options(iters=0, disable_opt_rtn=True, **options)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("vllm serve a/b", "is no auto-round command line"),
        ("auto-round --iters 0", "names no model"),
        ("auto-round --model a --itres 0", "unrecognized arguments: --itres.*--iters"),
        ("auto-round --model a --iters many", "invalid int value: 'many'"),
    ],
)
def test_broken_lines_are_refused(line: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse(line)


def test_a_file_of_prompts(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("a cat\na dog\n")
    line = f"auto-round --model a/b --iters 1 --dataset {tmp_path / 'p.txt'} --nsamples 1"
    assert wb.recipe_from_command(line)[1].calibration.prompts == ("a cat",)
    with pytest.raises(SpecError, match=r"no preset 'FLUX'; there are FLUX\.1-dev"):
        preset("FLUX")


def test_the_omni_recipe_says_what_can_be_done_with_it(tmp_path: Path, runs: Path) -> None:
    """Its line is read; its model is no diffusers pipeline, which is said before any work."""
    (tmp_path / "omni").mkdir()
    (tmp_path / "omni/config.json").write_text('{"model_type": "qwen3_omni_moe"}')
    line = OMNI.replace("Qwen/Qwen3-Omni-30B-A3B-Instruct", str(tmp_path / "omni"))
    with pytest.raises(ModelNotFound, match=r"qwen3_omni_moe: AutoRound and ModelOpt quantize its"):
        wb.quantize(*wb.recipe_from_command(line, dataset=["hello"]))
