"""Nothing is wrong with what the workbench writes, and the engine's part in it is foretold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import workbench as wb
from workbench.errors import ModelNotFound
from workbench.quant.lint.prediction import Prediction
from workbench.records import Checkpoint

# What vLLM-Omni 0.30.0 by itself does: method, layers quantized and in 16 bit of each transformer.
STOCK = {
    "qwen W4A16": ("as stored", "inc", 18, 8),
    "qwen FP8": ("as stored", "modelopt", 16, 10),
    "qwen FP8-dynamic": ("as stored", "modelopt", 16, 10),
    "qwen NVFP4": ("as stored", "modelopt_fp4", 16, 10),
    "qwen MIXED": ("as stored", "modelopt_mixed", 16, 10),
    "qwen MXFP8": ("refused", "", 0, 0),
    "flux W4A16": ("as stored", "inc", 28, 10),
    "flux FP8-dynamic": ("as stored", "modelopt", 6, 32),
    "wan W4A16": ("as stored", "inc", 8, 6),
    "wan FP8-dynamic": ("refused", "", 0, 0),
    "wan MIXED": ("refused", "", 0, 0),
}
PLUGIN = {
    **STOCK,
    "qwen MXFP8": ("as stored", "modelopt_mxfp8", 16, 10),
    "wan FP8-dynamic": ("as stored", "modelopt", 8, 6),
    "wan MIXED": ("as stored", "modelopt_mixed", 8, 6),
}


def facts(predictions: tuple[Prediction, ...]) -> set[tuple[str, str, int, int]]:
    return {
        (p.outcome, p.method, len(p.quantized), len(p.sixteen_bit))
        for p in predictions
        if p.component.startswith("transformer")
    }


@pytest.mark.parametrize("name", STOCK)
def test_a_good_checkpoint_has_no_errors_and_no_warnings(
    name: str, good: Callable[[str], Path]
) -> None:
    report = wb.lint(Checkpoint.load(good(name)))
    assert report.ok
    assert report.of("error") + report.of("warning") == (), str(report)
    assert facts(report.stock) == {STOCK[name]}
    assert facts(report.plugin) == {PLUGIN[name]}
    stock_fails = [f for f in report.findings if f.rule == "stock-fails"]
    assert bool(stock_fails) == (STOCK[name] != PLUGIN[name])


def test_without_the_plugin_what_stock_refuses_is_an_error(good: Callable[[str], Path]) -> None:
    report = wb.lint(good("wan FP8-dynamic"), plugin=False)
    assert {(f.rule, f.file) for f in report.of("error")} == {
        ("engine-refuses", f"{t}/config.json") for t in ("transformer", "transformer_2")
    }


def test_the_report_tells_bytes_method_and_predictions(good: Callable[[str], Path]) -> None:
    folder = good("qwen W4A16")
    report = wb.lint(folder)
    weights = folder / "transformer/diffusion_pytorch_model.safetensors"
    size = weights.stat().st_size
    assert report.bytes_by_component["transformer"] == {"used": size, "total": size}
    schemes = report.bytes_by_scheme["transformer"]
    header = int.from_bytes(weights.read_bytes()[:8], "little") + 8
    assert sum(schemes.values()) == size - header
    # 18 layers of 2 blocks: 12 + 3 of 256 x 256 in attention, MLP and modulation; 4 bits a weight,
    # and 2.5 bytes of scale and zero point for each 128.
    weights_in_4_bit = 2 * (8 * 256 * 256 + 4 * 256 * 1024 + 256 * 1536)
    assert schemes["W4A16"] == pytest.approx(
        weights_in_4_bit * (0.5 + 2.5 / 128), abs=2 * 4 * 13 * 1536
    )
    assert (report.method.raw, report.method.canonical) == ("auto-round", "auto-round")
    text = str(report)
    assert "0 errors" in text
    assert "18 layers quantized, 8 in 16 bit" in text
    assert list(report.table().columns) == ["severity", "rule", "file", "tensor", "message"]
    assert len(report.table()) == len(report.findings)


def test_a_component_alone_is_linted_like_in_its_pipeline(good: Callable[[str], Path]) -> None:
    report = wb.lint(good("wan MIXED") / "transformer_2")
    assert report.ok
    assert [(p.component, p.method) for p in report.plugin] == [("transformer_2", "modelopt_mixed")]


def test_a_model_in_16_bit_says_so() -> None:
    report = wb.lint("embedded:qwen-image")
    assert [f.rule for f in report.findings] == ["no-quantization"]
    assert "all in 16 bit" in str(report)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("embedded:nothing", "not an embedded model"),
        ("/nowhere/at/all", "is not a folder"),
        (Path("nowhere"), "is not a folder"),
    ],
)
def test_no_folder_no_lint(target: str | Path, said: str) -> None:
    with pytest.raises(ModelNotFound, match=said):
        wb.lint(target)


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ModelNotFound, match="so it is no model"):
        wb.lint(tmp_path)


def test_against_its_source_nothing_changed(
    good: Callable[[str], Path], tiny_wan: Path, tiny_qwen: Path
) -> None:
    assert wb.lint(good("wan MIXED"), source=tiny_wan).of("warning") == ()
    changed = wb.lint(good("qwen W4A16"), source=tiny_wan)
    told = {f.rule for f in changed.findings}
    assert {"config-changed", "source-missing"} <= told
    assert wb.lint(good("qwen W4A16"), source=tiny_qwen).ok
