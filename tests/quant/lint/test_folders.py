"""Folders of other layouts, and broken in ways that no exporter breaks them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planting import Shard, Tensor, write
from safetensors.numpy import save_file

import workbench as wb
from workbench.quant.lint.numbers import Counts, count


def omni(folder: Path, **config: Any) -> Path:
    """A flat transformers folder with one packed linear."""
    folder.mkdir(exist_ok=True)
    name = "thinker.model.layers.0.self_attn.q_proj"
    tensors = {
        f"{name}.qweight": np.zeros((32, 64), np.int32),
        f"{name}.qzeros": np.full((2, 8), 0x77777777, np.int32),
        f"{name}.scales": np.ones((2, 64), np.float16),
    }
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(
        json.dumps({"architectures": ["Qwen3OmniMoeForConditionalGeneration"], **config})
    )
    return folder


SAID = {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True,
        "packing_format": "auto_round:auto_gptq"}  # fmt: skip


def test_a_flat_folder_is_checked_but_for_names(tmp_path: Path) -> None:
    report = wb.lint(omni(tmp_path / "omni", quantization_config=SAID))
    assert report.ok, str(report)
    assert report.method.canonical == "auto-round"
    assert [(p.component, p.outcome, p.method) for p in report.stock] == [
        ("model", "unknown", "auto-round")
    ]
    assert "vLLM's own reader" in report.stock[0].reason
    assert report.bytes_by_scheme == {"model": {"W4A16": 32 * 64 * 4 + 2 * 8 * 4 + 2 * 64 * 2}}


def test_a_flat_folder_with_contradicting_configs(tmp_path: Path) -> None:
    folder = omni(
        tmp_path / "omni",
        quantization_config=SAID,
        thinker_config={"quantization_config": {**SAID, "group_size": 64}},
    )
    (folder / "hf_quant_config.json").write_text(
        json.dumps({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}})
    )
    told = {(f.rule, f.file) for f in wb.lint(folder).of("error")}
    assert told == {
        ("config-conflict", "config.json"),
        ("config-conflict", "hf_quant_config.json"),
    }


def test_gptq_of_the_second_format_has_eights(tmp_path: Path) -> None:
    said = {**SAID, "quant_method": "gptq", "checkpoint_format": "gptq_v2"}
    del said["packing_format"]
    report = wb.lint(omni(tmp_path / "omni", quantization_config=said))
    (finding,) = [f for f in report.findings if f.rule == "packing-zeros"]
    assert "holds zero points 7, but the packing 'gptq_v2' means 8" in finding.message


def test_packed_weights_that_no_config_speaks_of(tmp_path: Path) -> None:
    report = wb.lint(omni(tmp_path / "omni"))
    (finding,) = report.of("error")
    assert (finding.rule, finding.file) == ("engine-refuses", "config.json")
    assert "no quantization config" in finding.message


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"quantization_config": 3}', '{"quantization_config": null}']
)
def test_any_config_gives_a_report(content: str, tmp_path: Path) -> None:
    folder = omni(tmp_path / "omni")
    (folder / "config.json").write_text(content)
    assert not wb.lint(folder).ok


def test_scalars_and_empty_tensors_are_no_fault(tmp_path: Path) -> None:
    tensors = {
        "blocks.0.a.weight": Tensor("F32", [], bytearray(4)),
        "blocks.0.b.weight": Tensor("F32", [0, 4], bytearray()),
        "blocks.0.c.qweight": Tensor("I32", [0, 0], bytearray()),
        "blocks.0.c.scales": Tensor("F16", [], bytearray(2)),
        "blocks.0.d.weight": Tensor("F8_E4M3", [2, 0], bytearray()),
        "blocks.0.d.weight_scale": Tensor("F32", [0], bytearray()),
    }
    write(tmp_path / "model.safetensors", Shard(tensors))
    (tmp_path / "config.json").write_text("{}")
    rules = {finding.rule for finding in wb.lint(tmp_path).findings}
    assert "tensor-overlap" not in rules
    assert "tensor-gap" not in rules


E4M3 = np.array([0x00, 0x80, 0x01, 0x7E, 0x7F, 0xFE, 0xFF, 0x81], np.uint8)
FLOATS = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-7], np.float32)


@pytest.mark.parametrize(
    ("data", "dtype", "counts"),
    [
        (E4M3, "F8_E4M3", Counts(8, nan=2, zero=2, negative=2)),
        (E4M3, "F8_E8M0", Counts(8, nan=1)),
        (FLOATS, "F32", Counts(8, nan=1, infinite=2, zero=2, negative=2)),
        (FLOATS.astype(np.float16), "F16", Counts(8, nan=1, infinite=2, zero=2, negative=2)),
        (np.uint16([0x7F80, 0x7FC0, 0x3F80, 0x8000]), "BF16", Counts(4, 1, 1, 1, 0)),
        (np.tile(FLOATS, 1 << 17), "F32", Counts(1 << 20, *(n << 17 for n in (1, 2, 2, 2)))),
        (FLOATS[:0], "F32", Counts(0)),
        (FLOATS, "F64", None),
    ],
)
def test_bad_values_are_counted(data: np.ndarray, dtype: str, counts: Counts | None) -> None:
    assert count(data.view(np.uint8), dtype) == counts


def test_linting_takes_no_torch() -> None:
    code = (
        "import sys, workbench as wb; wb.lint('embedded:qwen-image'); "
        "sys.exit(any(m in sys.modules for m in ('torch', 'vllm', 'diffusers', 'transformers')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
