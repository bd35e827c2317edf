import math
from dataclasses import replace

from workbench.eval.census import census
from workbench.recipes import QuantRecipe


def test_blocks_are_taken_together_and_kept_layers_have_their_reason(reference, make_set):
    table = census([reference, make_set("FP8")])
    assert table["precision"].tolist() == ["BF16", "FP8", "FP8"]
    fp8 = table[table["precision"] == "FP8"]
    assert fp8["layers"].tolist() == [
        "transformer_blocks.*.attn.to_q",
        "transformer_blocks.*.norm.linear",
    ]
    assert fp8["number"].tolist() == [2, 2]
    assert fp8["kernel"].tolist() == ["SomeKernel (reference kernel)", "torch"]
    assert fp8["reason"].tolist() == ["", "the preset keeps it"]
    assert fp8["weights_mib"].tolist() == [2.0, 2.0]
    assert fp8["scheme"].tolist() == ["FP8", "BF16"]
    assert fp8["kind"].tolist() == ["reference", "native"]
    assert fp8["activations"].tolist() == ["FP8 per token", "16-bit"]


def test_two_transformers_have_rows_of_their_own(reference, make_set):
    assert "component" not in census([reference])
    names = [f"transformer{end}.blocks.0.to_q" for end in ("", "_2")]
    ran, kept, *_ = make_set("FP8").audit.layers
    layers = [replace(one, name=name) for one, name in zip((ran, kept), names, strict=True)]
    table = census([make_set("FP8", repeat=1, audit={"layers": layers})])
    assert table["component"].tolist() == ["transformer", "transformer_2"]
    assert table["quantized"].tolist() == [True, False]


def test_stored_and_loaded_dtype_and_the_largest_error_read_back_are_shown(make_set):
    packed, kept = census([make_set("W4A16")]).itertuples()
    assert (packed.file_dtype, packed.weight_dtype) == ("I32", "int8")
    assert packed.weight_error == 0.01
    assert math.isnan(kept.weight_error)


def test_two_recipes_of_one_label_stay_apart(make_set):
    recipes = [
        QuantRecipe(method="auto-round", scheme="W4A16", ignore=ignore) for ignore in ((), ("x",))
    ]
    table = census([make_set("W4A16", launch={"recipe": recipe}) for recipe in recipes])
    assert table["precision"].nunique() == 2


def test_linears_of_one_kind_share_a_row(reference):
    (row,) = census([reference]).itertuples()
    assert row.number == 4
    assert row.layers == "transformer_blocks.*.{attn.to_q, norm.linear}"
