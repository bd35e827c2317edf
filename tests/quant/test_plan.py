"""Which linears a recipe means, and what is refused before a quantizer is even imported."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from workbench.errors import ModelNotFound, SpecError
from workbench.quant.plan import make_plan
from workbench.recipes import Calibration, QuantRecipe
from workbench.zoo.weights import tensors


def recipe(**changes: Any) -> QuantRecipe:
    return QuantRecipe(**{"method": "auto-round", "scheme": "W4A16", **changes})


def mixed(*rules: tuple[str, str], **changes: Any) -> QuantRecipe:
    return recipe(scheme="MIXED", layer_schemes=rules, **changes)


def fp8(**changes: Any) -> QuantRecipe:
    scheme = {"method": "modelopt", "scheme": "FP8_PER_CHANNEL_PER_TOKEN"}
    return QuantRecipe(**{**scheme, **changes})


def edited(source: Path, target: Path, file: str, **changes: Any) -> Path:
    shutil.copytree(source, target)
    content = json.loads((target / file).read_text())
    (target / file).write_text(json.dumps({**content, **changes}))
    return target


def test_qwen_keeps_img_mod_and_all_outside_the_blocks(tiny_qwen: Path) -> None:
    plan = make_plan(tiny_qwen, recipe())
    assert list(plan.kept["transformer"]) == [
        "transformer_blocks.0.img_mod.1",
        "transformer_blocks.1.img_mod.1",
    ]
    assert "sensitive" in plan.kept["transformer"]["transformer_blocks.0.img_mod.1"]
    assert len(plan.quantized["transformer"]) == 26
    assert all(name.startswith("transformer_blocks.") for name in plan.quantized["transformer"])


def test_flux_takes_both_kinds_of_block(tiny_flux: Path) -> None:
    plan = make_plan(tiny_flux, recipe())
    assert len(plan.quantized["transformer"]) == 40
    assert "proj_out" not in plan.quantized["transformer"]
    assert "single_transformer_blocks.0.proj_out" in plan.quantized["transformer"]


def test_wan_takes_both_experts(tiny_wan: Path) -> None:
    plan = make_plan(tiny_wan, recipe())
    assert {name: len(layers) for name, layers in plan.quantized.items()} == {
        "transformer": 10,
        "transformer_2": 10,
    }


def test_ignored_parts_are_kept(tiny_wan: Path) -> None:
    plan = make_plan(tiny_wan, recipe(ignore=("attn1", "ffn.net.2")))
    kept = plan.kept["transformer_2"]
    assert len(kept) == 5
    assert all("attn1" in name or name.endswith("ffn.net.2") for name in kept)
    assert not set(kept) & set(plan.quantized["transformer_2"])


def test_part_of_a_fused_projection_cannot_be_kept(tiny_qwen: Path, tiny_wan: Path) -> None:
    with pytest.raises(SpecError, match="to_qkv: ignore all or none"):
        make_plan(tiny_qwen, recipe(ignore=("attn.to_v",)))
    make_plan(tiny_qwen, recipe(ignore=("attn.to_q", "attn.to_k", "attn.to_v")))
    make_plan(tiny_wan, recipe(ignore=("attn2.to_v",)))


def test_nothing_left_is_refused(tiny_flux: Path) -> None:
    with pytest.raises(SpecError, match=r"nothing is left.*ignore=\['\*blocks'\]"):
        make_plan(tiny_flux, recipe(ignore=("*blocks",)))
    with pytest.raises(SpecError, match=r"nothing is left.*layer_schemes="):
        make_plan(tiny_flux, mixed(("*blocks", "BF16")))


def test_a_group_that_does_not_divide_the_inputs(tmp_path: Path, tiny_wan: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(tiny_wan, tmp_path / "odd")
    file = next((tmp_path / "odd" / "transformer").glob("*.safetensors"))
    weights = load_file(file)
    weights["blocks.0.ffn.net.2.weight"] = torch.zeros(256, 480)
    save_file(weights, file)
    with pytest.raises(
        SpecError, match=r"group_size=128 does not fit.*ffn\.net\.2.*480 inputs.*of 32,"
    ):
        make_plan(tmp_path / "odd", recipe())
    make_plan(tmp_path / "odd", recipe(group_size=32))


def test_asymmetric_is_refused_as_vllm_cannot_load_it(tiny_qwen: Path) -> None:
    with pytest.raises(SpecError, match="use symmetric=True"):
        make_plan(tiny_qwen, recipe(symmetric=False))


def test_two_experts_need_two_calibration_steps(tiny_wan: Path) -> None:
    calibration = Calibration(prompts=("a dog",), num_inference_steps=1)
    with pytest.raises(SpecError, match=r"num_inference_steps=1.*needs 2 steps"):
        make_plan(tiny_wan, recipe(iters=1, calibration=calibration))


def test_a_quantized_model_is_refused(tmp_path: Path, tiny_qwen: Path) -> None:
    folder = edited(
        tiny_qwen,
        tmp_path / "q",
        "transformer/config.json",
        quantization_config={"quant_method": "fp8"},
    )
    with pytest.raises(SpecError, match=r"quantized already \(transformer: fp8\)"):
        make_plan(folder, recipe())


def test_an_unknown_pipeline_is_refused(tmp_path: Path, tiny_qwen: Path) -> None:
    folder = edited(tiny_qwen, tmp_path / "x", "model_index.json", _class_name="SanaPipeline")
    with pytest.raises(ModelNotFound, match="is a SanaPipeline; the workbench knows"):
        make_plan(folder, recipe())


def test_missing_weights_are_named(tmp_path: Path, tiny_wan: Path) -> None:
    shutil.copytree(tiny_wan, tmp_path / "x")
    shutil.rmtree(tmp_path / "x" / "transformer_2")
    with pytest.raises(ModelNotFound, match="names a transformer_2"):
        make_plan(tmp_path / "x", recipe())


def test_the_source_itself_is_not_touched(tiny_qwen: Path) -> None:
    before = {f: f.stat().st_mtime_ns for f in tiny_qwen.rglob("*")}
    make_plan(tiny_qwen, recipe())
    assert {f: f.stat().st_mtime_ns for f in tiny_qwen.rglob("*")} == before
    assert tensors(tiny_qwen / "transformer")


def test_a_fused_layer_may_not_mix_schemes(tiny_qwen: Path) -> None:
    with pytest.raises(SpecError, match=r"to_k W4A16, to_v W8A16.*into one to_qkv"):
        make_plan(tiny_qwen, mixed(("attn.to_v", "W8A16")))
    plan = make_plan(tiny_qwen, mixed(("to_qkv", "W8A16")))
    assert {plan.layers["transformer"][f"transformer_blocks.0.attn.to_{x}"] for x in "qkv"} == {
        "W8A16"
    }


def test_a_scheme_that_would_not_run_is_refused(tiny_qwen: Path, tiny_flux: Path) -> None:
    with pytest.raises(SpecError, match=r"'img_mod' asks for W8A16 where vLLM-Omni runs 16 bit"):
        make_plan(tiny_qwen, mixed(("img_mod", "W8A16")))
    make_plan(tiny_qwen, recipe(ignore=("img_mod",)))
    with pytest.raises(SpecError, match="dual-stream blocks"):
        make_plan(
            tiny_flux,
            QuantRecipe(
                method="modelopt",
                scheme="MIXED",
                layer_schemes=(("ff_context", "FP8"),),
                calibration=Calibration(prompts=("a dog",)),
            ),
        )


def test_all_linears_are_stored_where_the_engine_widens_them(
    tiny_flux: Path, tiny_wan: Path
) -> None:
    plan = make_plan(tiny_flux, fp8(all_linears=True))
    assert {"proj_out", "x_embedder", "transformer_blocks.0.norm1.linear"} <= set(
        plan.layers["transformer"]
    )
    assert plan.kept["transformer"] == {}
    make_plan(tiny_flux, fp8(all_linears=True, ignore=("transformer_blocks.0.attn.to_v",)))
    plan = make_plan(tiny_wan, fp8(all_linears=True))
    assert "condition_embedder.time_proj" in plan.layers["transformer"]
    assert "condition_embedder.time_proj" not in plan.layers["transformer_2"]
    assert "in the transformer alone" in plan.kept["transformer_2"]["proj_out"]


@pytest.mark.parametrize(
    ("pipeline", "why"),
    [
        ("ZImagePipeline", "z-image cannot be quantized .* full size .* serve it online"),
        ("OvisImagePipeline", "ovis-image .* runs 16 bit; serve it in BF16"),
        ("Flux2Pipeline", "flux2 .* Mistral text encoder"),
    ],
)
def test_what_is_not_written_is_said_with_the_reason(
    tmp_path: Path, pipeline: str, why: str
) -> None:
    (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": pipeline}))
    with pytest.raises(SpecError, match=why):
        make_plan(tmp_path, recipe())
