import pytest

from workbench.errors import SpecError
from workbench.quant.autoround_config import extra_config
from workbench.zoo.families import FAMILIES
from workbench.zoo.names import runtime_name
from workbench.zoo.presets import PRESETS, preset_of
from workbench.zoo.weights import tensors


def test_every_family_has_a_preset() -> None:
    assert {family.name for family in FAMILIES} <= {preset.family for preset in PRESETS}


def test_every_kept_layer_has_reason_and_source() -> None:
    for keep in (keep for preset in PRESETS for keep in preset.kept):
        assert keep.reason
        assert ".py:" in keep.source


@pytest.mark.parametrize(
    ("fixture", "family"), [("tiny_qwen", "qwen-image"), ("tiny_flux", "flux"), ("tiny_wan", "wan")]
)
def test_presets_name_what_the_models_have(
    fixture: str, family: str, request: pytest.FixtureRequest
) -> None:
    names = tensors(request.getfixturevalue(fixture) / "transformer")
    preset = preset_of(family)
    parts = [f"{block}.0." for block in preset.blocks] + [keep.part for keep in preset.kept]
    parts += [f"{g.parent}.{part}." for g in preset.fused for part in g.parts] + [
        own for own, _ in preset.renamed
    ]
    for part in parts:
        assert any(part in f".{name}" for name in names), part


def test_an_unknown_family_is_told_what_to_do() -> None:
    with pytest.raises(SpecError, match=r"qwen-image, flux, wan.*quantization='fp8'"):
        preset_of("sdxl")


@pytest.mark.parametrize(
    ("family", "name", "expected"),
    [
        ("wan", "blocks.0.attn1.to_k", "blocks.0.attn1.to_qkv"),
        ("wan", "blocks.0.attn2.to_k", "blocks.0.attn2.to_k"),
        ("wan", "blocks.3.ffn.net.0.proj", "blocks.3.ffn.net_0.proj"),
        ("wan", "blocks.3.ffn.net.2", "blocks.3.ffn.net_2"),
        ("wan", "blocks.3.attn2.to_out.0", "blocks.3.attn2.to_out"),
        ("flux", "transformer_blocks.0.attn.add_v_proj", "transformer_blocks.0.attn.add_kv_proj"),
        ("flux", "single_transformer_blocks.0.proj_out", "single_transformer_blocks.0.proj_out"),
        ("qwen-image", "transformer_blocks.0.attn.to_out.0", "transformer_blocks.0.attn.to_out.0"),
    ],
)
def test_runtime_names(family: str, name: str, expected: str) -> None:
    assert runtime_name(preset_of(family), name) == expected


def test_extra_config_holds_both_names() -> None:
    entries = extra_config(preset_of("wan"), ("blocks.0.attn1.to_q", "blocks.0.ffn.net.2"))
    assert list(entries) == [
        "blocks.0.attn1.to_q", "blocks.0.attn1.to_qkv", "blocks.0.ffn.net.2", "blocks.0.ffn.net_2",
    ]  # fmt: skip
    assert all(entry == {"bits": 16, "data_type": "float"} for entry in entries.values())
