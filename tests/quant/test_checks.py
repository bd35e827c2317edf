"""Shapes against blocks, tiles and ranks, on shapes of real models written by hand."""

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import workbench as wb
from workbench.errors import SpecError
from workbench.quant.checks import shapes_fit
from workbench.quant.plan import make_plan
from workbench.quant.ranks import Shards
from workbench.recipes import Calibration, QuantRecipe
from workbench.zoo.inventory import StoredLinear
from workbench.zoo.presets import preset_of

PROMPTS = Calibration(prompts=("a dog",))


def recipe(scheme: str = "W4A16", **changes: Any) -> QuantRecipe:
    if scheme in ("W4A16", "W8A16"):
        return QuantRecipe(**{"method": "auto-round", "scheme": scheme, **changes})
    calibration = {"calibration": PROMPTS} if scheme in ("FP8", "NVFP4") else {}
    return QuantRecipe(**{"method": "modelopt", "scheme": scheme, **calibration, **changes})


def shards(family: str, shapes: dict[str, tuple[int, int]], chosen: QuantRecipe, **heads: int):
    return Shards(
        layers=dict.fromkeys(shapes, chosen.scheme),
        stored=stored(shapes),
        preset=preset_of(family),
        recipe=chosen,
        heads=heads,
    )


def stored(shapes: dict[str, tuple[int, int]]) -> dict[str, StoredLinear]:
    return {
        name: StoredLinear(name=name, scheme="BF16", shape=shape, tensors={})
        for name, shape in shapes.items()
    }


@pytest.mark.parametrize(
    ("chosen", "inputs", "sizes"),
    [
        (recipe(), 11008, (1, 2)),  # 11008 = 86 x 128; 43 blocks at 2, 21.5 at 4
        (recipe(group_size=32), 11008, (1, 2, 4, 8)),  # 344 blocks of 32
        (recipe("NVFP4"), 1856, (1, 2, 4)),  # 116 blocks of 16; 14.5 at 8
        (recipe("MXFP8"), 1856, (1, 2)),  # 58 blocks of 32; 29 at 2, 14.5 at 4
        (recipe("FP8_PER_CHANNEL_PER_TOKEN"), 1856, (1, 2, 4)),  # no blocks, but tiles of 16
    ],
)
def test_inputs_that_ranks_share_keep_their_blocks_whole(
    chosen: QuantRecipe, inputs: int, sizes: tuple[int, ...]
) -> None:
    split = shards("wan", {"blocks.0.ffn.net.2": (4096, inputs)}, chosen)
    assert split.sizes == sizes
    split.check(sizes[-1])


def test_outputs_that_ranks_share_are_whole_tiles() -> None:
    split = shards("wan", {"blocks.0.ffn.net.0.proj": (480, 4096)}, recipe())
    assert split.sizes == (1,)  # 240 is no multiple of 32
    split = shards("wan", {"blocks.0.ffn.net.0.proj": (480, 4096)}, recipe("NVFP4"))
    assert split.sizes == (1, 2)  # 120 is no multiple of 16


def test_what_every_rank_holds_whole_limits_nothing() -> None:
    name = "single_transformer_blocks.0.proj_out"
    assert shards("flux", {name: (3072, 144)}, recipe("NVFP4")).sizes == (1, 2, 4, 8)
    split = {"transformer_blocks.0.ff.linear_out": (64, 144)}
    assert shards("flux2", split, recipe("NVFP4")).sizes == (1,)


@pytest.mark.parametrize(
    ("heads", "sizes"), [(30, (1, 2)), (24, (1, 2, 4, 8)), (52, (1, 2, 4)), (40, (1, 2, 4, 8))]
)
def test_heads_are_not_cut(heads: int, sizes: tuple[int, ...]) -> None:
    split = shards("wan", {}, recipe(), num_attention_heads=heads)
    assert split.sizes == sizes


def test_the_message_names_the_layer_and_what_would_do() -> None:
    split = shards("wan", {"blocks.0.attn1.to_out.0": (3072, 3072)}, recipe())
    message = r"to_out\.0 in W4A16 gives each rank 3072/16 inputs.*at 1, 2, 4, 8"
    with pytest.raises(SpecError, match=message):
        split.check(16)
    split = shards("wan", {}, recipe(), num_attention_heads=30)
    with pytest.raises(SpecError, match=r"num_attention_heads=30 does not split among 4 .*at 1, 2"):
        split.check(4)


@pytest.mark.parametrize(
    ("scheme", "shape", "message"),
    [
        ("NVFP4", (64, 40), "NVFP4 does not fit .* multiple of 16 and outputs of 16; ignore="),
        ("MXFP8", (64, 48), "multiple of 32"),
        ("FP8_PER_CHANNEL_PER_TOKEN", (40, 64), "multiple of 16 and outputs of 16"),
        ("W4A16", (48, 128), "group_size=128 does not fit .* outputs of 32"),
    ],
)
def test_shapes_that_no_kernel_takes(scheme: str, shape: tuple[int, int], message: str) -> None:
    chosen = recipe(scheme)
    name = "transformer_blocks.0.attn.to_q"
    preset = preset_of("qwen-image")
    with pytest.raises(SpecError, match=message) as caught:
        shapes_fit({name: scheme}, stored({name: shape}), preset, chosen, "transformer")
    assert "'transformer_blocks.0.attn.to_v'" in str(caught.value)  # the group goes together


def test_what_the_engine_widens_may_have_any_shape() -> None:
    chosen = recipe("FP8_PER_CHANNEL_PER_TOKEN", all_linears=True)
    linears = stored({"proj_out": (12, 20)})
    flux = preset_of("flux")
    assert shapes_fit({"proj_out": chosen.scheme}, linears, flux, chosen, "transformer") is None
    inside = "single_transformer_blocks.0.proj_out"
    with pytest.raises(SpecError, match="does not fit"):
        shapes_fit({inside: chosen.scheme}, stored({inside: (12, 20)}), flux, chosen, "transformer")


@pytest.mark.parametrize("size", [0, -1, True, "two"])
def test_no_number_of_ranks(tiny_wan, size: object) -> None:
    with pytest.raises(SpecError, match="tensor_parallel_size"):
        make_plan(tiny_wan, recipe(), tensor_parallel_size=size)


def test_ranks_as_digits(tiny_wan) -> None:
    make_plan(tiny_wan, recipe(), tensor_parallel_size="2")
    with pytest.raises(SpecError, match=r"num_attention_heads=2 .* 4 ranks; .* run at 1, 2"):
        make_plan(tiny_wan, recipe(), tensor_parallel_size=4)


def test_autorounds_mxfp8_of_flux_is_refused_as_the_engine_packs_one_layer_more(
    tiny_flux: Path,
) -> None:
    recipe = QuantRecipe(method="auto-round", scheme="MXFP8")
    with pytest.raises(SpecError, match=r"norm_out\.linear of flux.*method='modelopt'"):
        make_plan(tiny_flux, recipe)


def test_image_to_video_is_calibrated_from_images(tiny_i2v: Path, tmp_path: Path) -> None:
    Image.new("RGB", (64, 64)).save(tmp_path / "one.png")
    Image.new("RGB", (64, 64), "red").save(tmp_path / "other.png")
    one, other = (PROMPTS.but(images=tmp_path / f"{name}.png") for name in ("one", "other"))
    assert set(make_plan(tiny_i2v, recipe()).layers) == {"transformer", "transformer_2"}
    for chosen in (recipe("FP8"), recipe(iters=2, calibration=PROMPTS)):
        with pytest.raises(SpecError, match="begins each run with a first frame; give Calibration"):
            make_plan(tiny_i2v, chosen)
        make_plan(tiny_i2v, chosen.but(calibration=one))
    stored = Calibration(**one.model_dump())
    assert str(tmp_path) not in str(one.model_dump())
    assert stored.key == one.key != other.key
    with pytest.raises(SpecError, match="only digests are kept"):
        make_plan(tiny_i2v, recipe("FP8", calibration=stored))


@pytest.mark.parametrize(("model", "asked", "says"), [
    ("tiny_ti2v", {"height": 48}, "height=48: this model draws multiples of 32 .*; use 32 or 64"),
    ("tiny_ti2v", {"width": 144}, "width=144: .* would draw 128; use 128 or 160"),
    ("tiny_wan", {"height": 48, "width": 144}, None),
    ("tiny_qwen", {"num_frames": 9}, "num_frames=9: qwen-image draws images"),
    ("tiny_qwen", {"height": 48}, None),
    ("tiny_wan", {"guidance_scale_2": 3.0}, None),
    ("tiny_ti2v", {"guidance_scale_2": 3.0}, "guidance_scale_2=3.0 is the guidance of a second"),
])  # fmt: skip
def test_sizes_that_would_be_cut_are_refused_before_any_work(
    model: str, asked: dict, says: str | None, request: pytest.FixtureRequest
) -> None:
    source = request.getfixturevalue(model)
    chosen = recipe("FP8", calibration=PROMPTS.but(**asked))
    if says is None:
        assert make_plan(source, chosen).layers
        return
    with pytest.raises(SpecError, match=says):
        make_plan(source, chosen)
    with pytest.raises(SpecError, match=says):
        wb.activation_ranges(str(source), chosen.calibration)


def test_images_are_of_image_to_video_alone(tiny_wan: Path, tmp_path: Path) -> None:
    Image.new("RGB", (64, 64)).save(tmp_path / "one.png")
    with pytest.raises(SpecError, match="a wan model, is calibrated with prompts alone"):
        make_plan(tiny_wan, recipe("FP8", calibration=PROMPTS.but(images=tmp_path / "one.png")))
    with pytest.raises(SpecError, match=r"nowhere.png'\] are not there"):
        PROMPTS.but(images="nowhere.png")
    with pytest.raises(SpecError, match="2 images for 1 prompts"):
        PROMPTS.but(images=[tmp_path / "one.png"] * 2)
    with pytest.raises(SpecError, match="names no file; leave it out"):
        PROMPTS.but(images=[None])


def test_a_model_of_both_kinds_takes_images_for_some_prompts(
    tiny_ti2v: Path, tiny_i2v: Path, tmp_path: Path
) -> None:
    Image.new("RGB", (64, 64)).save(tmp_path / "one.png")
    two = Calibration(prompts=("a dog", "a cat"), images=(tmp_path / "one.png", None))
    make_plan(tiny_ti2v, recipe("FP8"))
    make_plan(tiny_ti2v, recipe("FP8", calibration=two))
    stored = Calibration(**two.model_dump())
    assert stored.key == two.key != two.but(images=(None, tmp_path / "one.png")).key
    with pytest.raises(SpecError, match="only digests are kept; give Calibration"):
        make_plan(tiny_ti2v, recipe("FP8", calibration=stored))
    with pytest.raises(SpecError, match="a file for every prompt or one for all"):
        make_plan(tiny_i2v, recipe("FP8", calibration=two))
