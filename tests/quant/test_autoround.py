"""Real AutoRound on tiny pipelines. Random weights: the figures check mechanics, not quality."""

import json
import logging
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from workbench.quant.autoround_cures import cures
from workbench.quant.calls import call_arguments
from workbench.quant.packing import integers
from workbench.recipes import Calibration, QuantRecipe
from workbench.records import Checkpoint
from workbench.specs import ModelRef
from workbench.zoo.inventory import linears
from workbench.zoo.weights import tensors

PARTS = ("qweight", "qzeros", "scales")
PROMPTS = ("a teapot on a wooden table", "a red\tcar, in\nthe snow")
CALIBRATION = Calibration(prompts=PROMPTS, num_inference_steps=2)


def recipe(**changes: Any) -> QuantRecipe:
    return QuantRecipe(**{"method": "auto-round", "scheme": "W4A16", **changes})


def made(source: Path, runs: Path, **changes: Any) -> Checkpoint:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(runs))
        return wb.quantize(ModelRef(source), recipe(**changes))


def config(folder: Path, component: str = "transformer") -> dict[str, Any]:
    return json.loads((folder / component / "config.json").read_text())["quantization_config"]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return {
        k: v for file in sorted(folder.glob("*.safetensors")) for k, v in load_file(file).items()
    }


def test_qwen_rtn(tiny_qwen: Path, shared_runs: Path) -> None:
    checkpoint = made(tiny_qwen, shared_runs)
    assert len(checkpoint.layers) == 26
    assert all(0.14 < layer.relative_error < 0.19 for layer in checkpoint.layers)
    assert checkpoint.bytes_after["transformer"] < 0.45 * checkpoint.bytes_before["transformer"]
    assert checkpoint.bytes_after["vae"] == checkpoint.bytes_before["vae"]
    written = config(checkpoint.path)
    assert (written["quant_method"], written["packing_format"]) == (
        "auto-round",
        "auto_round:auto_gptq",
    )
    assert (written["bits"], written["group_size"], written["sym"]) == (4, 128, True)
    assert list(written["extra_config"]) == [
        "transformer_blocks.0.img_mod.1",
        "transformer_blocks.1.img_mod.1",
    ]
    facts = tensors(checkpoint.path / "transformer")
    assert facts["transformer_blocks.0.attn.to_q.qweight"].shape == (32, 256)
    assert facts["transformer_blocks.0.img_mod.1.weight"].dtype == "BF16"
    assert "proj_out.weight" in facts


def test_round_to_nearest_is_what_it_says(tiny_qwen: Path, shared_runs: Path) -> None:
    """No value is further than half a step from the source, but where AutoRound's range clips."""
    name = "transformer_blocks.1.attn.to_out.0"
    packed = weights(made(tiny_qwen, shared_runs).path / "transformer")
    source = weights(tiny_qwen / "transformer")[f"{name}.weight"].float()
    difference = (integers(*(packed[f"{name}.{part}"] for part in PARTS)) - source).abs()
    step = packed[f"{name}.scales"].float().abs().T.repeat_interleave(128, 1)
    assert (difference <= 1.01 * step).all()
    assert (difference > 0.51 * step).float().mean() < 0.01


def test_flux_rtn_in_shards(tiny_flux: Path, tmp_path: Path, runs: Path) -> None:
    """Sharded sources take AutoRound's low-memory way, which writes other files."""
    from diffusers import FluxTransformer2DModel

    model = FluxTransformer2DModel.from_pretrained(tiny_flux / "transformer", dtype=torch.bfloat16)
    shutil.copytree(tiny_flux, tmp_path / "flux", ignore=shutil.ignore_patterns("transformer"))
    model.save_pretrained(tmp_path / "flux" / "transformer", max_shard_size="4MB")
    assert len(list((tmp_path / "flux" / "transformer").glob("*.safetensors"))) > 2
    checkpoint = wb.quantize(ModelRef(tmp_path / "flux"), recipe(group_size=64))
    assert len(checkpoint.layers) == 40
    assert all(0.12 < layer.relative_error < 0.18 for layer in checkpoint.layers)
    assert config(checkpoint.path)["extra_config"] == {}
    assert "_name_or_path" not in (checkpoint.path / "transformer" / "config.json").read_text()


def test_wan_rtn_quantizes_both_experts(tiny_wan: Path, runs: Path) -> None:
    checkpoint = wb.quantize(ModelRef(tiny_wan), recipe(ignore=("ffn.net.2", "attn1")))
    assert [layer.component for layer in checkpoint.layers] == ["transformer"] * 5 + [
        "transformer_2"
    ] * 5
    for component in ("transformer", "transformer_2"):
        assert "blocks.0.attn1.to_qkv" in config(checkpoint.path, component)["extra_config"]
        assert "blocks.0.ffn.net_2" in config(checkpoint.path, component)["extra_config"]
        assert checkpoint.bytes_after[component] < checkpoint.bytes_before[component]
        assert checkpoint.coverage[component] == wb.lint(checkpoint).coverage[component]


def test_coverage_is_counted_for_each_expert(tiny_wan: Path, runs: Path) -> None:
    checkpoint = wb.quantize(ModelRef(tiny_wan), recipe(ignore=("transformer_2.blocks.0.attn1",)))
    found = linears(tiny_wan / "transformer")
    every = sum(one.parameters for one in found.values())
    inside = sum(one.parameters for name, one in found.items() if name.startswith("blocks."))
    attention = sum(one.parameters for name, one in found.items() if ".attn1." in name)
    assert checkpoint.coverage == {
        "transformer": inside / every,
        "transformer_2": (inside - attention) / every,
    }
    report = wb.lint(checkpoint)
    assert report.coverage == checkpoint.coverage
    shares = [f"{name} {share:.0%}" for name, share in report.coverage.items()]
    assert f"quantized, of linear parameters: {', '.join(shares)}" in str(report)


def test_wan_tuned_calibrates_each_expert(tiny_wan: Path, runs: Path) -> None:
    checkpoint = wb.quantize(ModelRef(tiny_wan), recipe(iters=2, calibration=CALIBRATION))
    assert len(checkpoint.layers) == 20


def test_tuned_qwen_beats_rtn_on_the_block(tiny_qwen: Path, shared_runs: Path) -> None:
    before = state()
    tuned = made(tiny_qwen, shared_runs, iters=20, calibration=CALIBRATION)
    assert state() == before, "AutoRound's settings leaked"
    rtn = made(tiny_qwen, shared_runs)
    assert tuned.path != rtn.path
    losses = [block_loss(tiny_qwen, folder) for folder in (tuned.path, rtn.path)]
    assert losses[0] < 0.6 * losses[1]


def test_size_and_guidance_of_the_calibration_are_those_served(
    tiny_qwen: Path, tiny_wan: Path
) -> None:
    served = call_arguments(tiny_qwen, CALIBRATION, "true_cfg_scale")
    assert served == {
        "height": 128,
        "width": 128,
        "true_cfg_scale": 4.0,
        "negative_prompt": " ",
        "output_type": "latent",
    }
    small = Calibration(prompts=("a dog",), height=64, width=96)
    assert call_arguments(tiny_wan, small, "guidance_scale") == {
        "height": 64, "width": 96, "num_frames": 5, "guidance_scale": 5.0, "negative_prompt": "",
        "output_type": "latent",
    }  # fmt: skip
    video = Calibration(prompts=("a dog",), num_frames=9)
    assert call_arguments(tiny_wan, video, "guidance_scale")["num_frames"] == 9


@pytest.mark.parametrize("asked", [0.0, 1.0, 4.0])
def test_a_guidance_of_ones_own_wins(tiny_wan: Path, asked: float) -> None:
    given = Calibration(prompts=("a dog",), guidance_scale=asked)
    assert call_arguments(tiny_wan, given, "guidance_scale")["guidance_scale"] == asked
    assert given.key != Calibration(prompts=("a dog",)).key


def test_the_second_experts_guidance_is_asked_for_or_the_cards(tiny_wan: Path, tmp_path) -> None:
    both = Calibration(prompts=("a dog",), guidance_scale_2=3.0)
    plain = call_arguments(tiny_wan, Calibration(prompts=("a dog",)), "guidance_scale")
    assert call_arguments(tiny_wan, both, "guidance_scale") == {**plain, "guidance_scale_2": 3.0}
    shutil.copytree(tiny_wan, tmp_path / "wan")
    card = json.loads((tiny_wan / "card.json").read_text())
    card["sampling"]["guidance_scale_2"] = 2.0
    (tmp_path / "wan" / "card.json").write_text(json.dumps(card))
    of_card = call_arguments(tmp_path / "wan", both.but(guidance_scale_2=None), "guidance_scale")
    assert of_card == {**plain, "guidance_scale_2": 2.0}


def test_cures_keep_complex_values_and_are_undone() -> None:
    from auto_round.algorithms import block_runner
    from auto_round.calibration import inputs

    before = inputs.to_dtype, dict(block_runner._DIFFUSION_OUTPUT_REGISTRY)
    rotary = torch.polar(torch.ones(3), torch.arange(3.0))
    with cures():
        kept, cast = inputs.to_dtype([(rotary, torch.ones(2))], torch.bfloat16)[0]
        assert torch.equal(kept, rotary)
        assert cast.dtype == torch.bfloat16
        assert "QwenImageTransformerBlock" in block_runner._DIFFUSION_OUTPUT_REGISTRY
    assert (inputs.to_dtype, block_runner._DIFFUSION_OUTPUT_REGISTRY) == before


def state() -> tuple[Any, ...]:
    torch_state = torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled()
    logger = logging.getLogger("autoround")
    seeds = (
        hash(random.getstate()),
        torch.initial_seed(),
        hash(torch.get_rng_state().numpy().tobytes()),
    )
    return *torch_state, *seeds, dict(os.environ), logger.propagate


def block_loss(source: Path, checkpoint: Path) -> float:
    """Mean squared error of the first block's picture stream on real inputs, weights swapped in."""
    from diffusers import QwenImagePipeline

    pipeline = QwenImagePipeline.from_pretrained(source, dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    block, calls = pipeline.transformer.transformer_blocks[0], []
    hook = block.register_forward_pre_hook(lambda _, a, k: calls.append((a, k)), with_kwargs=True)
    generator = torch.Generator().manual_seed(0)
    arguments = call_arguments(source, CALIBRATION, "true_cfg_scale")
    pipeline(PROMPTS[0], num_inference_steps=2, generator=generator, **arguments)
    hook.remove()
    packed, losses = weights(checkpoint / "transformer"), []
    with torch.no_grad():
        reference = [block(*a, **k)[1] for a, k in calls]
        for name, module in block.named_modules():
            parts = [packed.get(f"transformer_blocks.0.{name}.{part}") for part in PARTS]
            if parts[0] is not None:
                module.weight.copy_(integers(*parts))
        losses = [
            (block(*a, **k)[1] - r).square().mean()
            for (a, k), r in zip(calls, reference, strict=True)
        ]
    return float(sum(losses))
