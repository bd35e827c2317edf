"""What a plan tells: the smallest layout that fits, its table, and other schemes."""

from __future__ import annotations

from pathlib import Path

import pytest
from sparse_pipelines import qwen_image, w4a16

import workbench as wb
from workbench.errors import NotSupportedHere
from workbench.serve.plan_result import Plan


def plan(folder: Path, **options: object) -> Plan:
    return wb.plan(str(folder), **{"gpus": 8, "gpu_memory_gib": 80, **options})


def test_what_fits_and_what_is_short(tmp_path: Path) -> None:
    folder = qwen_image(tmp_path / "m", layers=60)
    small = plan(folder, gpu_memory_gib=30)
    best = small.smallest()
    assert best.valid
    assert best.fits
    assert not any(one.fits for one in small.valid if one.parallelism.world_size < 2)
    assert "fits on" in str(small)
    tiny = plan(folder, gpus=1, gpu_memory_gib=20)
    with pytest.raises(NotSupportedHere, match=r"GiB on a device of 20.0, \d+\.\d GiB too much"):
        tiny.smallest()
    assert "too much" in str(tiny)


def test_the_table_has_a_row_a_layout(tmp_path: Path) -> None:
    found = plan(qwen_image(tmp_path / "m"), gpus=2)
    table = found.table()
    assert len(table) == len(found)
    parts = ("transformer_gib", "text_encoder_gib", "vae_gib", "activations_gib", "context_gib")
    assert table[[*parts]].sum(axis=1).tolist() == pytest.approx(table.memory_gib.tolist())
    assert table.valid.tolist() == [one.valid for one in found]
    assert table.layout.is_unique


def test_schemes_take_less_memory_and_fewer_devices(tmp_path: Path) -> None:
    folder = qwen_image(tmp_path / "m", layers=60)
    rows = plan(folder, gpu_memory_gib=30).with_schemes().set_index(["scheme", "how"])
    full, fp8, w4 = (rows.loc[key] for key in (("BF16", "as it is"), ("FP8", "online"),
                                               ("W4A16", "auto-round")))  # fmt: skip
    assert full.weights_gib > fp8.weights_gib > w4.weights_gib
    assert full.smallest_gpus > w4.smallest_gpus == 1
    assert full.quantized == 0 < fp8.quantized < w4.quantized < 1  # txt_mod, AutoRound alone
    online = plan(folder, gpu_memory_gib=30, quantization="fp8").layout()
    assert online.needed == pytest.approx(fp8.memory_gib * 2**30, rel=1e-3)
    stored = plan(qwen_image(tmp_path / "w", layers=60, packing=w4a16)).layout()
    assert stored.needed == pytest.approx(w4.memory_gib * 2**30, rel=0.05)
