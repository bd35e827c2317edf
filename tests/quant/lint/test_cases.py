"""Section D of user_asks.md, cases 1 to 5 and 8, as far as they concern a checkpoint folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from planting import WEIGHTS, config, copy, edited, read, split, write

import workbench as wb
from workbench.errors import ModelNotFound
from workbench.quant.lint.report import LintReport
from workbench.zoo.weights import tensors, weight_bytes


@pytest.fixture
def w4a16(good: Callable[[str], Path], tmp_path: Path) -> Path:
    return copy(good("qwen W4A16"), tmp_path / "checkpoint")


def say(folder: Path, **fields: Any) -> LintReport:
    """Lint with fields of the quantization config set, or left out if None is given as ``...``."""
    with config(folder / "transformer/config.json") as content:
        for name, value in fields.items():
            if value is ...:
                del content["quantization_config"][name]
            else:
                content["quantization_config"][name] = value
    return wb.lint(folder)


@pytest.mark.parametrize(
    "raw", ["auto_round", "autoround", "AutoRound", "inc", "intel/auto-round", "auto-round"]
)
def test_case_1_all_spellings_mean_one_method_and_the_raw_one_is_kept(
    raw: str, w4a16: Path
) -> None:
    report = say(w4a16, quant_method=raw)
    assert (report.method.raw, report.method.canonical) == (raw, "auto-round")
    assert "method-unknown" not in {f.rule for f in report.findings}
    taken = raw in ("auto_round", "inc", "auto-round")  # what the engine itself reads
    assert {p.method for p in report.stock if p.component == "transformer"} == {
        "inc" if taken else ""
    }
    assert report.ok == taken


def test_case_1_an_unknown_spelling_lists_the_known_ones(w4a16: Path) -> None:
    report = say(w4a16, quant_method="roundauto")
    (finding,) = [f for f in report.findings if f.rule == "method-unknown"]
    assert (finding.severity, finding.file) == ("error", "transformer/config.json")
    for known in ("auto-round", "intel/auto-round", "modelopt", "fp8", "bitsandbytes"):
        assert known in finding.message


def test_case_2_bits_absent_strings_and_null(w4a16: Path) -> None:
    report = say(w4a16, bits=..., group_size="128", sym=None)
    told = {f.rule: f for f in report.findings}
    assert told["field-missing"].severity == "error"
    assert "transformer/config.json gives no bits" in told["field-missing"].message
    assert told["field-type"].severity == "note"
    assert "read here as 128" in told["field-type"].message
    assert told["sym-unknown"].severity == "note"
    assert "shape" not in told, "the string is read as the number that the scales have"


def test_case_3_a_missing_shard_is_an_error_without_a_size(w4a16: Path) -> None:
    gone = split(w4a16 / "transformer")[1]
    gone.unlink()
    report = wb.lint(w4a16)
    (finding,) = [f for f in report.findings if f.rule == "shard-missing"]
    assert (finding.severity, finding.file) == ("error", f"transformer/{gone.name}")
    assert "incomplete copy?" in finding.message
    assert report.bytes_by_component["transformer"]["used"] is None
    assert "unknown, a file is missing" in str(report)
    for size in (weight_bytes, lambda folder: tensors(folder / "transformer")):
        with pytest.raises(ModelNotFound, match=rf"lacks {gone.name}: incomplete copy\?"):
            size(w4a16)


def test_case_4_the_index_is_the_allow_list(w4a16: Path) -> None:
    component = w4a16 / "transformer"
    whole = read(component / WEIGHTS)
    files = split(component)
    write(component / WEIGHTS, whole)
    with edited(files[0]) as shard:
        shard.tensors["stray.weight"] = whole.tensors["proj_out.bias"]
    report = wb.lint(w4a16)
    told = {(f.rule, f.severity, f.file, f.tensor) for f in report.findings}
    assert ("shard-unindexed", "warning", f"transformer/{WEIGHTS}", "") in told
    assert (
        "tensor-unindexed", "warning", f"transformer/{files[0].name}", "stray.weight",
    ) in told  # fmt: skip
    used = sum(file.stat().st_size for file in files)
    total = used + (component / WEIGHTS).stat().st_size
    assert report.bytes_by_component["transformer"] == {"used": used, "total": total}
    assert weight_bytes(w4a16)["transformer"] == used
    assert set(tensors(component)) == set(whole.tensors)
    assert {facts.file for facts in tensors(component).values()} == set(files)


@pytest.mark.parametrize(
    ("byte", "said"),
    [(0x7F, "1 NaN of"), (0xFF, "1 NaN of"), (0x7E, None), (0xFE, "1 negative of")],
)
def test_case_5_e4m3_scales(
    byte: int, said: str | None, good: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = copy(good("qwen MIXED"), tmp_path / "checkpoint")
    name = "transformer_blocks.1.txt_mlp.net.2.weight_scale"
    with edited(folder / "transformer" / WEIGHTS) as shard:
        shard.tensors[name].u8[7] = byte
    found = [f for f in wb.lint(folder).findings if f.rule == "scale-values"]
    assert [(f.severity, f.tensor) for f in found] == ([("error", name)] if said else [])
    assert not said or said in found[0].message


def test_case_5_an_all_zero_scale(good: Callable[[str], Path], tmp_path: Path) -> None:
    folder = copy(good("qwen MIXED"), tmp_path / "checkpoint")
    name = "transformer_blocks.1.txt_mlp.net.2.weight_scale"
    with edited(folder / "transformer" / WEIGHTS) as shard:
        shard.tensors[name].u8[:] = 0
        shard.tensors["transformer_blocks.0.img_mlp.net.2.weight_scale"].u8[5] = 0
    found = {f.tensor: f for f in wb.lint(folder).findings if f.rule == "scale-values"}
    assert found[name].severity == "error"
    assert "zero throughout" in found[name].message
    partly = found["transformer_blocks.0.img_mlp.net.2.weight_scale"]
    assert (partly.severity, "holds 1 zeros of" in partly.message) == ("warning", True)


def test_case_8_a_pattern_without_a_match_is_an_error_and_fused_names_are_known(
    good: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = copy(good("qwen FP8-dynamic"), tmp_path / "checkpoint")
    entries = ["*.no_such_layer", "transformer_blocks.0.attn.qkv_proj"]
    report = say(folder, ignore=entries)
    told = {(f.tensor, f.rule): f for f in report.findings}
    assert told["*.no_such_layer", "name-unknown"].severity == "error"
    named = told["transformer_blocks.0.attn.qkv_proj", "name-other"]
    assert "asks for it as transformer_blocks.0.attn.to_qkv" in named.message
