"""The verdict follows from the facts of the modules alone."""

from typing import Any

import pytest

from workbench.errors import PrecisionNotApplied
from workbench.serve.audit import audit
from workbench.specs import LaunchSpec, ModelRef

MODEL = ModelRef("embedded:qwen-image")
BLOCK = "transformer.transformer_blocks.0."


def fact(name: str, dtype: str = "bfloat16", kernel: str = "torch linear", **more: Any) -> dict:
    return {
        "name": name,
        "layer": "Linear",
        "method": "none",
        "kernel": kernel,
        "activations_8bit": False,
        "reference_kernel": False,
        "weight_dtype": dtype,
        "weight_bytes": 4,
        "parameters": 4,
        **more,
    }


def census(*facts: dict) -> dict[str, Any]:
    return {
        "linears": facts,
        "attention_backend": "SDPA",
        "weight_bytes": {"transformer": 8},
        "world_sizes": {"world": 1},
        "platform": "cpu",
        "device": "cpu",
    }


def spec(quantization: str | None) -> LaunchSpec:
    return LaunchSpec(model=MODEL, quantization=quantization)


def test_all_inside_the_blocks_is_as_requested() -> None:
    facts = census(fact(f"{BLOCK}attn.to_qkv", "float8_e4m3fn"), fact("transformer.proj_out"))
    result = audit(spec("fp8"), "qwen-image", facts)
    assert result.verdict == "as requested"
    assert result.coverage == 0.5
    assert result.kept[0].reason.startswith("outside")


@pytest.mark.parametrize(("name", "by_design"), [("img_mod.1", True), ("img_mlp.net.2", False)])
def test_one_left_in_16_bit_is_partly_and_says_by_whose_will(name: str, by_design: bool) -> None:
    facts = census(fact(f"{BLOCK}attn.to_qkv", "int8"), fact(f"{BLOCK}{name}"))
    result = audit(spec("int8"), "qwen-image", facts)
    assert result.verdict == "partly"
    assert result.kept[0].by_design is by_design
    assert result.kept[0].reason


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
    with pytest.raises(PrecisionNotApplied, match="was asked for and is not what runs"):
        audit(spec(quantization), "qwen-image", census(*facts))


def test_a_reference_kernel_is_said_to_be_one() -> None:
    facts = census(fact(f"{BLOCK}attn.to_qkv", "float8_e4m3fn", "Ours", reference_kernel=True))
    assert "right numerics, no speed" in str(audit(spec("fp8"), "qwen-image", facts))
