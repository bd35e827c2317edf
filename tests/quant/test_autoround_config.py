"""What the config says is what vLLM's own parser makes of it, for every layer of every family."""

from pathlib import Path
from typing import Any

import pytest
import torch

from workbench.quant.autoround_config import BITS, extra_config
from workbench.quant.plan import Plan, make_plan
from workbench.recipes import QuantRecipe
from workbench.zoo.inventory import linears
from workbench.zoo.names import runtime_name

# A layer in each form of its name: of the file, fused, at run time.
CASES = {
    "tiny_qwen": [("attn.to_qkv", "W8A16"), ("txt_mlp", "BF16"), ("to_add_out", "W8A16")],
    "tiny_flux": [("single_transformer_blocks.*.proj_out", "W8A16"), ("ff.net.2", "BF16")],
    "tiny_wan": [("attn1.to_q", "W8A16"), ("attn1.to_k", "W8A16"), ("attn1.to_v", "W8A16"),
                 ("ffn.net_2", "BF16"), ("attn2.to_out", "W8A16")],
}  # fmt: skip


def parser(
    plan: Plan, component: str, *, bits: int = 4, data_type: str = "int", group: int = 64
) -> Any:
    """vLLM's parser of the config that would be written."""
    from vllm_omni.quantization.inc_config import OmniINCConfig

    layers, kept = plan.layers[component], plan.kept[component]
    config = {
        "bits": bits,
        "group_size": group,
        "sym": True,
        "data_type": data_type,
        "block_name_to_quantize": ",".join(plan.preset.blocks),
        "extra_config": extra_config(plan.preset, layers, kept, bits=bits, group_size=group),
    }
    return OmniINCConfig.from_config(config).config_parser


@pytest.mark.parametrize("fixture", CASES)
def test_every_runtime_layer_resolves_to_what_was_written(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    source: Path = request.getfixturevalue(fixture)
    recipe = QuantRecipe(
        method="auto-round", scheme="MIXED", group_size=64, layer_schemes=CASES[fixture]
    )
    plan = make_plan(source, recipe)
    for component, layers in plan.layers.items():
        resolver, seen = parser(plan, component), set()
        for name in linears(source / component):
            scheme = layers.get(name, "BF16")
            bits, group, symmetric = resolver.get_layer_config(
                torch.nn.Module(), runtime_name(plan.preset, name)
            )
            assert (name, bits) == (name, BITS.get(scheme, 16))
            assert symmetric
            assert bits == 16 or group == 64
            seen.add(scheme)
        assert seen == {"W4A16", "W8A16", "BF16"}


def test_mxfp4_keeps_what_is_kept(tiny_wan: Path) -> None:
    recipe = QuantRecipe(method="auto-round", scheme="MXFP4", ignore=("attn1",))
    plan = make_plan(tiny_wan, recipe)
    resolver = parser(plan, "transformer", data_type="mx_fp", group=32)
    module = torch.nn.Module()
    assert resolver.get_layer_config(module, "blocks.0.attn1.to_qkv")[0] == 16
    assert resolver.get_layer_config(module, "blocks.0.attn1.to_out")[0] == 16
    assert resolver.get_layer_config(module, "blocks.0.ffn.net_0.proj")[:2] == (4, 32)
    assert resolver.get_layer_config(module, "proj_out")[0] == 16


def test_only_what_differs_is_named(tiny_qwen: Path) -> None:
    plan = make_plan(tiny_qwen, QuantRecipe(method="auto-round", scheme="W8A16"))
    entries = extra_config(
        plan.preset, plan.layers["transformer"], plan.kept["transformer"], bits=8
    )
    assert entries == {
        f"transformer_blocks.{n}.img_mod.1": {"bits": 16, "data_type": "float"} for n in (0, 1)
    }


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_asymmetric_weights_have_no_kernel_on_either_platform(
    bits: int, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason that checks.py gives for refusing symmetric=False, asked of vLLM itself."""
    from vllm.model_executor.layers.quantization.inc.schemes import inc_wna16_scheme
    from vllm_omni.quantization.inc_config import OmniINCConfig

    class Platform:
        is_cpu = staticmethod(lambda: platform == "cpu")
        is_cuda = staticmethod(lambda: platform == "cuda")
        is_xpu = staticmethod(lambda: False)

    monkeypatch.setattr(inc_wna16_scheme, "current_platform", Platform)
    config = OmniINCConfig.from_config({"bits": bits, "group_size": 128, "sym": False})
    layer = config.config_parser.resolve(torch.nn.Module(), "blocks.0.ffn.net_2")
    scheme = inc_wna16_scheme.INCWna16Scheme()
    with pytest.raises(NotImplementedError, match=r"unsupported config|symmetric"):
        scheme.get_linear_method(config, torch.nn.Module(), "blocks.0.ffn.net_2", layer)
