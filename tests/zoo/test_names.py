"""File names, runtime names and fused names mean the same linears, tried on every one there is."""

from pathlib import Path

import pytest

from workbench.zoo.inventory import linears
from workbench.zoo.names import (
    canonical,
    file_names,
    fused_group,
    matches,
    module_name,
    nearest,
    runtime_name,
    siblings,
    spellings,
)
from workbench.zoo.presets import preset_of

TINY = [("tiny_qwen", "qwen-image"), ("tiny_flux", "flux"), ("tiny_wan", "wan")]


@pytest.fixture(params=TINY, ids=[family for _, family in TINY])
def model(request: pytest.FixtureRequest):
    fixture, family = request.param
    folder: Path = request.getfixturevalue(fixture)
    return preset_of(family), list(linears(folder / "transformer"))


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
        ("z-image", "layers.1.feed_forward.w3", "layers.1.feed_forward.w13"),
        ("z-image", "layers.1.feed_forward.w2", "layers.1.feed_forward.w2"),
        ("z-image", "context_refiner.0.attention.to_v", "context_refiner.0.attention.to_qkv"),
        ("flux2", *["single_transformer_blocks.0.attn.to_out"] * 2),
        ("glm-image", "transformer_blocks.0.attn1.to_q", "transformer_blocks.0.attn1.to_qkv"),
        ("qwen2.5-omni", "visual.blocks.4.attn.k", "visual.blocks.4.attn.qkv"),
        (
            "qwen3-omni",
            "model.layers.2.mlp.experts.31.down_proj",
            "language_model.model.layers.2.mlp.experts",
        ),
        (
            "qwen3-omni",
            "model.layers.2.self_attn.q_proj",
            "language_model.model.layers.2.self_attn.qkv_proj",
        ),
    ],
)
def test_runtime_names(family: str, name: str, expected: str) -> None:
    assert runtime_name(preset_of(family), name) == expected


def test_a_module_may_be_called_otherwise_than_the_config_sees_it() -> None:
    name = "transformer_blocks.0.attn.to_out.0"
    assert module_name(preset_of("qwen-image"), name) == "transformer_blocks.0.attn.to_out"
    assert module_name(preset_of("flux"), name) == name


def test_every_name_leads_back_to_the_file(model) -> None:
    preset, names = model
    for name in names:
        assert canonical(preset, name) == name
        if fused_group(preset, name) is None:
            assert canonical(preset, runtime_name(preset, name)) == name
            assert canonical(preset, module_name(preset, name)) == name
        for form in (runtime_name(preset, name), module_name(preset, name)):
            assert file_names(preset, form, names) == tuple(
                one for one in names if one in siblings(preset, name)
            )


def test_each_spelling_means_its_linears_and_no_other(model) -> None:
    preset, names = model
    for name in names:
        group = set(siblings(preset, name)) & set(names)
        for spelled in spellings(preset, name):
            own = spelled == name
            meant = {one for one in names if matches(preset, spelled, one)}
            # Flux's final `proj_out` and its embedders are also the last parts of longer names.
            meant = {one for one in meant if one.count(".") == name.count(".")} if own else meant
            assert meant == ({name} if own else group), spelled


def test_the_beginning_of_a_name_can_be_held() -> None:
    preset = preset_of("flux")
    names = ("proj_out", "single_transformer_blocks.0.proj_out", "transformer_blocks.0.ff.net.2")
    assert [n for n in names if matches(preset, "^proj_out", n)] == ["proj_out"]
    assert [n for n in names if matches(preset, "proj_out", n)] == list(names[:2])
    assert [n for n in names if matches(preset, "^transformer_blocks", n)] == [names[2]]


@pytest.mark.parametrize(
    ("family", "pattern", "name", "meant"),
    [
        ("qwen-image", "attn.to_q", "transformer_blocks.0.attn.to_q", True),
        ("qwen-image", "attn.to_q", "transformer_blocks.0.attn.to_k", False),
        ("qwen-image", "qkv_proj", "transformer_blocks.0.attn.to_k", True),
        ("qwen-image", "qkv_proj", "transformer_blocks.0.attn.add_k_proj", False),
        ("qwen-image", "transformer_blocks.1", "transformer_blocks.10.attn.to_k", False),
        ("qwen-image", "transformer_blocks.1", "transformer_blocks.1.attn.to_k", True),
        ("qwen-image", "blocks", "transformer_blocks.1.attn.to_k", False),
        ("qwen-image", "*blocks", "transformer_blocks.1.attn.to_k", True),
        ("qwen-image", "transformer_blocks.*.img_mlp", "transformer_blocks.7.img_mlp.net.2", True),
        ("qwen-image", "transformer_blocks.[0-3].attn", "transformer_blocks.2.attn.to_q", True),
        ("qwen-image", "transformer_blocks.[0-3].attn", "transformer_blocks.4.attn.to_q", False),
        ("flux", "transformer_blocks.1", "single_transformer_blocks.1.proj_mlp", False),
        ("wan", "*.ffn.*", "blocks.0.ffn.net.2", True),
        ("wan", "ffn.net_0", "blocks.0.ffn.net.0.proj", True),
        ("wan", "to_qkv", "blocks.0.attn2.to_q", False),
        ("wan", "attn2.to_out", "blocks.0.attn2.to_out.0", True),
        ("wan", "", "blocks.0.ffn.net.2", False),
        ("wan", "^", "blocks.0.ffn.net.2", False),
        ("z-image", "gate_up_proj", "layers.0.feed_forward.w1", True),
        ("z-image", "gate_up_proj", "layers.0.feed_forward.w2", False),
        ("z-image", "w1", "layers.0.feed_forward.w3", False),
    ],
)
def test_patterns(family: str, pattern: str, name: str, meant: bool) -> None:
    assert matches(preset_of(family), pattern, name) is meant


def test_a_component_in_front_holds_a_pattern_to_it() -> None:
    preset, name = preset_of("wan"), "blocks.0.ffn.net.2"
    assert matches(preset, "transformer_2.blocks.0.ffn", name, "transformer_2")
    assert matches(preset, "transformer_2.blocks.0.ffn.net_2", name, "transformer_2")
    assert matches(preset, "transformer_2.*.ffn", name, "transformer_2")
    assert not matches(preset, "transformer_2.blocks.0.ffn", name, "transformer")
    assert not matches(preset, "transformer.blocks.0.ffn", name, "transformer_2")
    assert matches(preset, "blocks.0.ffn", name, "transformer")


def test_misspelt_names_find_their_likes(model) -> None:
    preset, names = model
    first = [name for name in names if ".0." in name]
    wrong = {"qwen-image": "txt_mpl", "flux": "ff_contxt", "wan": "atn2.to_q"}[preset.family]
    right = {"qwen-image": "txt_mlp", "flux": "ff_context", "wan": "attn2.to_q"}[preset.family]
    assert right in nearest(preset, wrong, first)
    assert nearest(preset, "zzzz", first) == []
