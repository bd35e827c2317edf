from workbench.eval.census import census


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


def test_linears_of_one_kind_share_a_row(reference):
    (row,) = census([reference]).itertuples()
    assert row.number == 4
    assert row.layers == "transformer_blocks.*.{attn.to_q, norm.linear}"
