"""What each layer should be follows from the headers of the files and the family's preset."""

from pathlib import Path

from workbench.serve.expected import components, expectations
from workbench.specs import LaunchSpec, ModelRef
from workbench.zoo.families import family_of

MODEL = ModelRef("embedded:qwen-image")
ONLINE = LaunchSpec(model=MODEL, quantization="fp8")


def test_fused_members_lie_in_the_order_of_the_outputs(tiny_qwen: Path) -> None:
    layers = expectations(tiny_qwen, family_of(tiny_qwen), ONLINE)
    fused = layers["transformer.transformer_blocks.1.attn.to_qkv"]
    assert [member.name.rpartition(".")[2] for member in fused.members] == ["to_q", "to_k", "to_v"]
    assert (fused.scheme, fused.file_dtype, fused.kept) == ("FP8", "BF16", None)
    assert fused.quantized


def test_what_the_engine_keeps_is_expected_in_16_bit(tiny_qwen: Path) -> None:
    layers = expectations(tiny_qwen, family_of(tiny_qwen), ONLINE)
    inner = layers["transformer.transformer_blocks.0.img_mod.1"]
    outer = layers["transformer.proj_out"]
    assert inner.inside
    assert not outer.inside
    assert {inner.scheme, outer.scheme} == {"BF16"}
    assert inner.kept
    assert outer.kept
    assert not inner.quantized


def test_a_16_bit_launch_expects_what_the_files_hold(tiny_flux: Path) -> None:
    layers = expectations(tiny_flux, family_of(tiny_flux), LaunchSpec(model=MODEL))
    assert {layer.scheme for layer in layers.values()} == {"BF16"}


def test_every_expert_of_wan_has_its_layers_under_their_runtime_names(tiny_wan: Path) -> None:
    family = family_of(tiny_wan)
    assert components(tiny_wan, family) == ("transformer", "transformer_2")
    layers = expectations(tiny_wan, family, ONLINE)
    for expert in ("transformer", "transformer_2"):
        assert layers[f"{expert}.blocks.0.ffn.net_2"].scheme == "FP8"
        assert layers[f"{expert}.blocks.0.attn2.to_out"].scheme == "FP8"
