"""What this machine is said to run."""

from importlib import import_module

import pandas as pd
import pytest

from workbench.schemes import SCHEMES

module = import_module("workbench.serve.capabilities")  # the function has the same name


def on_gpu(patch: pytest.MonkeyPatch, name: str, capability: list[int]) -> pd.DataFrame:
    patch.setattr(module, "gpus", lambda: [{"name": name, "compute_capability": capability}])
    return module.capabilities().set_index("precision")


def test_on_cpu_all_run_and_fp8_is_said_to_be_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "gpus", list)
    table = module.capabilities()
    assert list(table) == module.COLUMNS
    assert table.runs.all()
    assert set(table.precision) == {
        "BF16", "FP8", "INT8", *(scheme.label for scheme in SCHEMES.values())
    }  # fmt: skip
    assert (table.set_index("precision").kind[["FP8", "NVFP4", "MXFP4"]] == "reference").all()


@pytest.mark.parametrize(
    ("instructions", "int8", "w4a16"),
    [
        (["avx2"], "reference", "reference"),
        (["avx512_vnni", "avx512f", "avx2"], "native", "weight-only"),
    ],
)
def test_a_cpu_without_vnni_or_avx512_takes_reference_kernels(
    monkeypatch: pytest.MonkeyPatch, instructions: list[str], int8: str, w4a16: str
) -> None:
    monkeypatch.setattr(module, "gpus", list)
    cpu = {"cpu": {"name": "some CPU", "instructions": instructions}}
    monkeypatch.setattr(module, "provenance", lambda: cpu)
    kinds = module.capabilities().set_index("precision").kind
    assert kinds[["INT8", "W4A16", "W8A16"]].tolist() == [int8, w4a16, "reference"]


def test_an_older_gpu_is_told_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    table = on_gpu(monkeypatch, "NVIDIA A100", [8, 0])
    assert not table.runs[["FP8", "ModelOpt FP8"]].any()
    assert "8.9" in table.reason["FP8"]
    assert table.kind["FP8"] == "none"
    assert table.runs["W4A16"]


def test_nvfp4_on_hopper_is_said_to_be_weight_only(monkeypatch: pytest.MonkeyPatch) -> None:
    table = on_gpu(monkeypatch, "NVIDIA H200", [9, 0])
    assert table.runs.all()
    assert table.kind["ModelOpt FP8"] == "native"
    assert (table.kind[["NVFP4", "MXFP8", "MXFP4"]] == "weight-only").all()
    assert "needs 10.0" in table.reason["NVFP4"]


def test_nvfp4_on_blackwell_is_native(monkeypatch: pytest.MonkeyPatch) -> None:
    table = on_gpu(monkeypatch, "NVIDIA B200", [10, 0])
    assert (table.kind[["NVFP4", "MXFP8", "MXFP4"]] == "native").all()
