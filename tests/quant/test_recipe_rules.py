"""What the patterns of ``ignore`` and ``layer_schemes`` match, and which of them wins."""

from pathlib import Path
from typing import Any

import pytest

from workbench.errors import SpecError
from workbench.quant.plan import make_plan
from workbench.recipes import QuantRecipe


def recipe(**changes: Any) -> QuantRecipe:
    return QuantRecipe(**{"method": "auto-round", "scheme": "W4A16", **changes})


def mixed(*rules: tuple[str, str], **changes: Any) -> QuantRecipe:
    return recipe(scheme="MIXED", layer_schemes=rules, **changes)


def test_a_pattern_that_matches_nothing_is_named_with_examples(tiny_qwen: Path) -> None:
    with pytest.raises(
        SpecError, match=r"ignore='txt_mpl' matches no linear.*transformer_blocks\.0"
    ):
        make_plan(tiny_qwen, recipe(ignore=("txt_mpl",)))


def test_a_misspelt_pattern_is_told_its_likes(tiny_qwen: Path) -> None:
    with pytest.raises(SpecError, match=r"did you mean '?txt_mlp"):
        make_plan(tiny_qwen, recipe(ignore=("txt_mpl",)))
    with pytest.raises(SpecError, match=r"layer_schemes='img_mpl' matches no linear"):
        make_plan(tiny_qwen, mixed(("img_mpl", "W8A16")))


@pytest.mark.parametrize(
    "names",
    [
        ("attn1",),
        ("attn1.to_q", "attn1.to_k", "attn1.to_v", "attn1.to_out.0"),
        ("attn1.to_qkv", "attn1.to_out"),
        ("qkv_proj", "blocks.*.attn1.to_out.0"),
    ],
)
def test_file_fused_and_runtime_names_give_the_same_plan(
    tiny_wan: Path, names: tuple[str, ...]
) -> None:
    plan = make_plan(tiny_wan, recipe(ignore=names))
    assert sorted(plan.kept["transformer"]) == [
        f"blocks.0.attn1.{part}" for part in ("to_k", "to_out.0", "to_q", "to_v")
    ]
    assert plan.kept["transformer"] == plan.kept["transformer_2"]


def test_a_rule_may_hold_for_one_expert(tiny_wan: Path) -> None:
    plan = make_plan(tiny_wan, recipe(ignore=("transformer_2.blocks.0.ffn",)))
    assert plan.kept["transformer"] == {}
    assert set(plan.kept["transformer_2"]) == {"blocks.0.ffn.net.0.proj", "blocks.0.ffn.net.2"}
    with pytest.raises(SpecError, match="matches no linear of the transformer or transformer_2"):
        make_plan(tiny_wan, recipe(ignore=("transformer_3.blocks",)))


def test_of_rules_the_last_match_wins_and_ignore_goes_first(tiny_qwen: Path) -> None:
    rules = (("img_mlp", "W8A16"), ("transformer_blocks.1", "BF16"), ("img_mlp.net.2", "W8A16"))
    plan = make_plan(tiny_qwen, mixed(*rules, ignore=("txt_mlp",)))
    layers, kept = plan.layers["transformer"], plan.kept["transformer"]
    assert layers["transformer_blocks.0.img_mlp.net.0.proj"] == "W8A16"
    assert layers["transformer_blocks.0.attn.to_q"] == "W4A16"
    assert layers["transformer_blocks.1.img_mlp.net.2"] == "W8A16"
    assert kept["transformer_blocks.1.attn.to_q"] == "the recipe keeps it"
    assert kept["transformer_blocks.0.txt_mlp.net.2"] == "the recipe keeps it"
    same = make_plan(tiny_qwen, mixed(("*", "W8A16"), ("attn", "BF16")))
    assert set(same.kept["transformer"]) == set(
        make_plan(tiny_qwen, recipe(ignore=("attn",))).kept["transformer"]
    )
