"""What this machine is said to run."""

from importlib import import_module

import pytest

module = import_module("workbench.serve.capabilities")  # the function has the same name

COLUMNS = ["precision", "runs", "kernel", "reason"]


def test_on_cpu_all_run_and_fp8_is_said_to_be_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "gpus", list)
    table = module.capabilities()
    assert list(table) == COLUMNS
    assert table.runs.all()
    assert table.set_index("precision").kernel["FP8"] == "reference"


def test_an_older_gpu_is_told_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    device = {"name": "NVIDIA A100", "compute_capability": [8, 0]}
    monkeypatch.setattr(module, "gpus", lambda: [device])
    table = module.capabilities().set_index("precision")
    assert not table.runs["FP8"]
    assert "8.9" in table.reason["FP8"]
    assert table.runs["W4A16"]
