"""The presets against the sources they cite and against what the engine itself builds."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from zoo import engine

from workbench.errors import SpecError
from workbench.zoo.families import FAMILIES
from workbench.zoo.names import canonical, file_names, module_name, runtime_name
from workbench.zoo.presets import (
    AUTOROUND,
    EVERY,
    MODELOPT,
    ONLINE,
    PRESETS,
    inside_blocks,
    kept_reason,
    preset_of,
)
from workbench.zoo.weights import tensors

OFFERED_OUTSIDE = {"flux": {"norm_out.linear"}}
"""Handed to AutoRound's config, whose block list then leaves it in 16 bit."""


@pytest.fixture(scope="module")
def groups() -> Iterator[None]:
    with engine.single_process():
        yield


def test_every_family_has_a_preset_and_every_preset_a_family() -> None:
    assert {family.name for family in FAMILIES} == {preset.family for preset in PRESETS}
    for family in FAMILIES:
        named = {component.name for component in preset_of(family.name).components}
        assert set(family.transformers) <= named


def cited() -> list[tuple[str, str]]:
    return sorted(
        {
            (preset.family, source)
            for preset in PRESETS
            for source in (
                preset.outside,
                *(rule.source for rule in preset.kept),
                *(component.source for component in preset.components if component.reason),
            )
        }
    )


@pytest.mark.parametrize(("family", "source"), cited())
def test_a_cited_line_is_the_one_that_builds_the_layer(family: str, source: str) -> None:
    path, _, line = source.partition(":")
    package = Path(find_spec(path.split("/")[0]).origin).parent
    text = (package.parent / path).read_text().splitlines()[int(line) - 1]
    words = ("quant", "Linear(", "from_pretrained", "Encoder", "AutoencoderKL", "from_config")
    words += ("create_transformers_model", "Siglip", "Transformer2DModel(", "AutoEncoder(")
    words += ("Code2Wav",)
    assert any(word in text for word in words), text


def test_what_is_kept_or_not_made_says_why() -> None:
    for preset in PRESETS:
        assert all(rule.reason for rule in preset.kept)
        for component in preset.components:
            assert bool(component.reason) == (set(component.methods) != set(EVERY))
        assert preset.offline != bool(preset.ignored or preset.not_offline)
    offline = {preset.family for preset in PRESETS if preset.offline}
    assert offline == {"qwen-image", "flux", "wan", "wan-i2v"}


@pytest.mark.parametrize("method", EVERY)
@pytest.mark.parametrize("family", engine.BUILDS)
@pytest.mark.usefixtures("groups")
def test_the_engine_quantizes_what_the_preset_says(family: str, method: str) -> None:
    preset = preset_of(family)
    layers = engine.engine_linears(family, method)
    files = engine.file_linears(family)
    assert {module_name(preset, name) for name in files} == set(layers)
    quantized = {name for name, layer in layers.items() if layer.seen_as}
    if method == AUTOROUND:
        assert {n for n in quantized if not inside_blocks(preset, n)} == OFFERED_OUTSIDE.get(
            family, set()
        )
        quantized = {name for name in quantized if inside_blocks(preset, name)}
    assert {name for name in layers if kept_reason(preset, name, method) is None} == quantized
    for name in files:
        layer = layers[module_name(preset, name)]
        if kept_reason(preset, name, method) is None:
            assert layer.seen_as == runtime_name(preset, name)
        assert name in file_names(preset, module_name(preset, name), files)


@pytest.mark.parametrize("family", [name for name in engine.BUILDS if name != "ovis-image"])
@pytest.mark.usefixtures("groups")
def test_the_engine_splits_as_the_preset_says(family: str) -> None:
    preset = preset_of(family)
    layers = engine.engine_linears(family, AUTOROUND)
    for name in engine.file_linears(family):
        if inside_blocks(preset, name):
            kind = layers[module_name(preset, name)].kind
            assert (kind == "RowParallelLinear") == f".{name}".endswith(preset.row_parallel), name
            assert (kind == "ReplicatedLinear") == f".{name}".endswith(preset.replicated), name


@pytest.mark.parametrize("method", EVERY)
@pytest.mark.usefixtures("groups")
def test_bagel_is_quantized_in_both_experts(method: str) -> None:
    preset = preset_of("bagel")
    layers = engine.bagel_linears(method)
    for path, layer in layers.items():
        name = path.removeprefix("bagel.")
        assert (kept_reason(preset, name, method) is None) == (layer.seen_as is not None), name
        assert layer.seen_as in (None, path)
    attention = "language_model.model.layers.0.self_attn"
    assert runtime_name(preset, f"{attention}.k_proj_moe_gen") == f"{attention}.qkv_proj.gen_exp"
    assert runtime_name(preset, f"{attention}.o_proj_moe_gen") == f"{attention}.o_proj.gen_exp"
    assert canonical(preset, f"{attention}.o_proj.gen_exp") == f"{attention}.o_proj_moe_gen"
    assert f"bagel.{runtime_name(preset, f'{attention}.v_proj')}" in layers


@pytest.mark.parametrize(
    ("family", "name", "kept_under"),
    [
        ("qwen-image", "transformer_blocks.0.img_mod.1", EVERY),
        ("qwen-image", "transformer_blocks.0.txt_mod.1", (ONLINE, MODELOPT)),
        ("qwen-image", "transformer_blocks.0.attn.to_qkv", ()),
        ("qwen-image", "transformer_blocks.0.attn.to_out", ()),
        ("qwen-image", "img_in", EVERY),
        ("flux", "transformer_blocks.0.attn.to_qkv", (ONLINE, MODELOPT)),
        ("flux", "single_transformer_blocks.0.attn.to_qkv", ()),
        ("flux", "single_transformer_blocks.0.norm.linear", (ONLINE, MODELOPT)),
        ("flux", "proj_out", EVERY),
        ("wan", "blocks.0.ffn.net_0.proj", ()),
        ("wan", "condition_embedder.time_proj", EVERY),
        ("z-image", "layers.0.feed_forward.w13", ()),
        ("z-image", "noise_refiner.0.adaLN_modulation.0", EVERY),
        ("glm-image", "prior_projector.net.2", ()),
        ("ovis-image", "transformer_blocks.0.attn.to_qkv", EVERY),
        ("qwen2.5-omni", "language_model.model.layers.0.mlp.gate_up_proj", ()),
        ("qwen2.5-omni", "model.layers.0.mlp.gate_proj", ()),
        ("qwen2.5-omni", "visual.blocks.0.attn.qkv", (MODELOPT,)),
        ("qwen2.5-omni", "audio_tower.layers.0.fc1", EVERY),
        ("qwen3-omni", "model.layers.0.mlp.experts.7.up_proj", ()),
        ("qwen3-omni", "model.layers.0.mlp.gate", (MODELOPT, AUTOROUND)),
        ("qwen3-omni", "visual.blocks.0.attn.qkv", EVERY),
        ("qwen3-omni", "code_predictor.model.layers.0.mlp.down_proj", EVERY),
    ],
)
def test_kept_by_any_name(family: str, name: str, kept_under: tuple[str, ...]) -> None:
    preset = preset_of(family)
    kept = tuple(method for method in EVERY if kept_reason(preset, name, method))
    assert kept == tuple(method for method in EVERY if method in kept_under)


@pytest.mark.parametrize(
    ("fixture", "family"), [("tiny_qwen", "qwen-image"), ("tiny_flux", "flux"), ("tiny_wan", "wan")]
)
def test_presets_name_what_the_models_have(
    fixture: str, family: str, request: pytest.FixtureRequest
) -> None:
    names = tensors(request.getfixturevalue(fixture) / "transformer")
    preset = preset_of(family)
    parts = [f".{block}.0." for block in preset.blocks] + [keep.part for keep in preset.kept]
    parts += [f".{g.parent}.{part}." for g in preset.fused for part in g.parts]
    parts += [f".{own}." for own, _ in preset.renamed]
    parts += [f"{end}." for end in preset.row_parallel]
    for part in parts:
        assert any(part in f".{name}" for name in names), part


def test_an_unknown_family_is_told_what_to_do() -> None:
    with pytest.raises(SpecError, match=r"qwen-image, flux, .*quantization='fp8'"):
        preset_of("sdxl")
