"""The verdict follows from the facts of the modules and of the files alone."""

from pathlib import Path
from typing import Any

import pytest

from workbench.audits import Audit
from workbench.errors import PrecisionNotApplied
from workbench.recipes import QuantRecipe
from workbench.serve.audit import audit
from workbench.serve.expected import Expected
from workbench.specs import LaunchSpec, ModelRef
from workbench.zoo.inventory import StoredLinear
from workbench.zoo.weights import TensorFacts

MODEL = ModelRef("embedded:qwen-image")
BLOCK = "transformer.transformer_blocks.0."
W4A16 = LaunchSpec(model=MODEL, recipe=QuantRecipe(method="auto-round", scheme="W4A16"))
KEPT = "the engine builds it in 16 bit"


def fact(name: str, dtype: str = "bfloat16", kernel: str = "torch linear", **more: Any) -> dict:
    return {
        "name": name,
        "layer": "Linear",
        "method": "none",
        "kernel": kernel,
        "activations_8bit": False,
        "reference_kernel": False,
        "inputs": "",
        "weight_dtype": dtype,
        "packed_bytes": 4,
        "weight_bytes": 5,
        "parameters": 8,
        **more,
    }


def expected(scheme: str, kept: str | None = None, inside: bool = True) -> Expected:
    dtype = {"W4A16": "I32", "FP8": "F8_E4M3", "NVFP4": "U8"}.get(scheme, "BF16")
    facts = TensorFacts(file=Path("f"), dtype=dtype, shape=(2, 4))
    member = StoredLinear(name="x", scheme=scheme, shape=(2, 4), tensors={"weight": facts})
    return Expected(scheme=scheme, members=(member,), kept=kept, inside=inside)


def census(*facts: dict) -> dict[str, Any]:
    return {
        "linears": facts,
        "attention_backend": "SDPA",
        "weight_bytes": {"transformer": 8},
        "world_sizes": {"world": 1},
        "platform": "cpu",
        "device": "cpu",
    }


def judged(spec: LaunchSpec, layers: dict[str, tuple[Expected | None, dict]]) -> Audit:
    """Audit of layers given as name -> (what the files say, what the worker says)."""
    facts = [fact(name, **one) for name, (_, one) in layers.items()]
    return audit(spec, {n: e for n, (e, _) in layers.items() if e is not None}, census(*facts))


def spec(quantization: str | None) -> LaunchSpec:
    return LaunchSpec(model=MODEL, quantization=quantization)


def test_all_inside_the_blocks_is_as_requested() -> None:
    result = judged(
        spec("fp8"),
        {
            f"{BLOCK}attn.to_qkv": (expected("FP8"), {"dtype": "float8_e4m3fn"}),
            "transformer.proj_out": (expected("BF16", "outside", inside=False), {}),
        },
    )
    assert result.verdict == "as requested"
    assert result.coverage == 0.5
    assert "50% of linear parameters quantized" in str(result)
    assert "component" not in result.table()
    assert result.bytes_saved == 2 * 8 - 5
    assert result.kept[0].reason == "outside"


@pytest.mark.parametrize(("kept", "by_design"), [(KEPT, True), (None, False)])
def test_online_one_left_in_16_bit_is_partly_and_says_by_whose_will(
    kept: str | None, by_design: bool
) -> None:
    result = judged(
        spec("int8"),
        {
            f"{BLOCK}attn.to_qkv": (expected("INT8"), {"dtype": "int8"}),
            f"{BLOCK}img_mod.1": (expected("BF16" if kept else "INT8", kept), {}),
        },
    )
    assert result.verdict == "partly"
    assert result.kept[0].by_design is by_design
    assert result.kept[0].reason


PACKED = {"dtype": "int32", "kernel": "MarlinLinearKernel", "method": "INCLinearMethod"}


@pytest.mark.parametrize(
    ("scheme", "kept", "loaded", "verdict", "reason"),
    [
        ("BF16", KEPT, {}, "as requested", KEPT),
        ("BF16", None, {}, "as requested", "16 bit in the checkpoint"),
        ("FP8", KEPT, {}, "as requested", f"dequantized at load: {KEPT}"),
        ("W4A16", None, {}, "partly", "not quantized, although W4A16 covers it"),
        ("W4A16", None, PACKED, "as requested", None),
    ],
)
def test_a_checkpoint_is_judged_layer_by_layer_against_its_files(
    scheme: str, kept: str | None, loaded: dict, verdict: str, reason: str | None
) -> None:
    result = judged(
        W4A16,
        {
            f"{BLOCK}attn.to_qkv": (expected("W4A16"), PACKED),
            f"{BLOCK}img_mod.1": (expected(scheme, kept), loaded),
        },
    )
    assert result.verdict == verdict
    assert [layer.reason for layer in result.kept] == ([] if reason is None else [reason])
    assert result.layers[1].file_dtype == {"BF16": "BF16", "FP8": "F8_E4M3", "W4A16": "I32"}[scheme]


@pytest.mark.parametrize(
    ("scheme", "loaded"),
    [
        ("BF16", PACKED),  # the file has it in 16 bit, and a sibling's scheme was inferred
        ("NVFP4", PACKED),
        ("FP8", PACKED),
        ("W4A16", {**PACKED, "packed_bytes": 8}),  # a byte a weight
        ("W4A16", {**PACKED, "activations_8bit": True}),
    ],
)
def test_a_layer_in_another_scheme_than_its_file_is_refused(scheme: str, loaded: dict) -> None:
    layers = {
        f"{BLOCK}attn.to_qkv": (expected("W4A16"), PACKED),
        f"{BLOCK}img_mlp.net.2": (expected(scheme), loaded),
    }
    with pytest.raises(PrecisionNotApplied, match="is not what runs"):
        judged(W4A16, layers)


def test_a_quantized_linear_that_no_layer_took_is_missing() -> None:
    layers = {f"{BLOCK}attn.to_qkv": expected("W4A16"), f"{BLOCK}attn.other": expected("W4A16")}
    result = audit(W4A16, layers, census(fact(f"{BLOCK}attn.to_qkv", **PACKED)))
    assert result.verdict == "partly"
    assert result.missing == (f"{BLOCK}attn.other",)
    assert "1 linears of the files not found" in str(result)


@pytest.mark.parametrize(
    ("quantization", "facts"),
    [
        ("fp8", [fact(f"{BLOCK}attn.to_qkv")]),
        ("fp8", [fact(f"{BLOCK}attn.to_qkv", "int8")]),
        ("fp8", []),
        (None, [fact(f"{BLOCK}attn.to_qkv", "int8")]),
        ("int8", [fact(f"{BLOCK}attn.to_qkv", "int8", activations_8bit=True)]),
    ],
)
def test_another_precision_than_asked_is_refused(
    quantization: str | None, facts: list[dict]
) -> None:
    scheme = (quantization or "BF16").upper()
    with pytest.raises(PrecisionNotApplied, match="was asked for and is not what runs"):
        audit(spec(quantization), {f"{BLOCK}attn.to_qkv": expected(scheme)}, census(*facts))


@pytest.mark.parametrize(("second", "verdict"), [("W4A16", "as requested"), ("BF16", "partly")])
def test_each_of_two_transformers_has_its_share_and_one_in_16_bit_is_named(
    second: str, verdict: str
) -> None:
    loaded = PACKED if second == "W4A16" else {}
    result = judged(
        W4A16,
        {
            "transformer.blocks.0.attn1.to_q": (expected("W4A16"), PACKED),
            "transformer.proj_out": (expected("BF16"), {"parameters": 24}),
            "transformer_2.blocks.0.attn1.to_q": (expected(second), loaded),
        },
    )
    assert result.verdict == verdict
    assert result.shares == {"transformer": 0.25, "transformer_2": float(second == "W4A16")}
    share = "100%" if second == "W4A16" else "0%"
    assert f"25% of transformer's and {share} of transformer_2's linear parameters" in str(result)
    assert ("transformer_2 runs in 16 bit" in str(result)) == (second == "BF16")
    assert result.unquantized == (() if second == "W4A16" else ("transformer_2",))
    named = ["transformer", "transformer", "transformer_2"]
    assert result.table()["component"].tolist() == named


def test_d9_a_report_that_says_all_bf16_is_not_applied() -> None:
    report = census(*(fact(f"{BLOCK}{name}") for name in ("attn.to_qkv", "img_mlp.net.2")))
    files = {one["name"]: expected("W4A16") for one in report["linears"]}
    with pytest.raises(PrecisionNotApplied, match="2 x bfloat16 in torch linear"):
        audit(W4A16, files, report)


@pytest.mark.parametrize(
    ("scheme", "kernel", "dtype", "kind", "said"),
    [
        ("NVFP4", "MarlinNvFp4LinearKernel", "int32", "weight-only", "16-bit products"),
        ("NVFP4", "EmulationNvFp4LinearKernel", "uint8", "emulated", "emulated"),
        ("NVFP4", "CutlassNvFp4LinearKernel", "uint8", "native", ""),
        ("FP8", "Ours", "float8_e4m3fn", "reference", "right numerics, no speed"),
        ("W4A16", "MarlinLinearKernel", "int32", "weight-only", ""),
    ],
)
def test_what_a_kernel_really_does_is_said(
    scheme: str, kernel: str, dtype: str, kind: str, said: str
) -> None:
    launched = LaunchSpec(model=MODEL, stored="some")
    loaded = {"dtype": dtype, "kernel": kernel, "reference_kernel": kind == "reference"}
    result = judged(launched, {f"{BLOCK}attn.to_qkv": (expected(scheme), loaded)})
    assert result.verdict == "as requested"
    assert result.layers[0].kind == kind
    assert said in str(result)
    assert ("(" in str(result)) == bool(said)


def test_coverage_by_multiplications_counts_rows() -> None:
    result = judged(
        W4A16,
        {
            f"{BLOCK}attn.to_qkv": (expected("W4A16"), PACKED),
            "transformer.proj_out": (expected("BF16", KEPT), {"parameters": 24}),
        },
    )
    assert result.flops_coverage is None
    assert result.coverage == 0.25
    counted = result.counted({f"{BLOCK}attn.to_qkv": 9, "transformer.proj_out": 1})
    assert counted.flops_coverage == 8 * 9 / (8 * 9 + 24)
    assert result.counted({}).flops_coverage == 0
    assert Audit.from_json(counted.to_json()) == counted
