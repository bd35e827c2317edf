import filecmp
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from workbench import store
from workbench.errors import QuantizationFailed, SpecError, StoreError
from workbench.quant import autoround
from workbench.recipes import QuantRecipe
from workbench.records import Checkpoint
from workbench.specs import ModelRef

RECIPE = QuantRecipe(method="auto-round", scheme="W4A16")


def files(folder: Path) -> set[str]:
    return {str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file()}


def test_all_but_the_transformer_is_copied_byte_for_byte(tiny_wan: Path, runs: Path) -> None:
    """Wan's float32 VAE and the tokenizer's files are what AutoRound itself would change."""
    source = tiny_wan.parent / "with-extras"
    shutil.copytree(tiny_wan, source, dirs_exist_ok=True)
    (source / "LICENSE.md").write_text("terms")
    (source / "all-in-one.safetensors").write_bytes(b"weights that a pipeline does not read")
    (source / "assets").mkdir(exist_ok=True)
    (source / "transformer" / "config.json").write_text(
        json.dumps(
            {
                **json.loads((source / "transformer/config.json").read_text()),
                "_name_or_path": "/home/me",
            }
        )
    )
    path = wb.quantize(ModelRef(source), RECIPE).path
    same = {
        f
        for f in files(source)
        if not f.startswith("transformer") and f != "all-in-one.safetensors"
    }
    assert "LICENSE.md" in same
    assert files(path) - same == {
        "manifest.json",
        *(
            f"{t}/{f}"
            for t in ("transformer", "transformer_2")
            for f in ("config.json", "diffusion_pytorch_model.safetensors")
        ),
    }
    assert filecmp.cmpfiles(source, path, same, shallow=False)[1:] == ([], [])
    texts = [f.read_text() for f in path.rglob("*.json") if f.name != "manifest.json"]
    assert not any(str(source.parent) in text or "/home/me" in text for text in texts)


def test_the_same_request_is_answered_from_the_run_folder(
    tiny_qwen: Path, shared_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(shared_runs))
    first = wb.quantize(ModelRef(tiny_qwen), RECIPE)
    monkeypatch.setattr(autoround, "run", lambda *a, **k: pytest.fail("it ran again"))
    second = wb.quantize(ModelRef(tiny_qwen), RECIPE)
    assert second == first == Checkpoint.load(first.path) == wb.load(first.key)
    assert first.model.revision.startswith("content-")
    assert first.layer_table().shape == (26, 5)
    assert first.size_table().set_index("component").loc["transformer", "ratio"] < 0.45


def test_force_keeps_the_old_one_until_the_new_is_whole(
    tiny_wan: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = wb.quantize(ModelRef(tiny_wan), RECIPE)
    with monkeypatch.context() as patch:
        patch.setattr(autoround, "run", failing)
        with pytest.raises(QuantizationFailed):
            wb.quantize(ModelRef(tiny_wan), RECIPE, force=True)
    assert Checkpoint.load(first.path) == first
    again = wb.quantize(ModelRef(tiny_wan), RECIPE, force=True)
    assert again.elapsed_s != first.elapsed_s
    weights = "transformer/diffusion_pytorch_model.safetensors"
    assert again.layers == first.layers, "the same seed gives the same weights"
    assert (again.path / weights).is_file()
    assert [f.name for f in again.path.parent.iterdir()] == [again.key]


def failing(*_: Any, **__: Any) -> None:
    raise QuantizationFailed("no")


def test_a_failed_run_leaves_nothing(
    tiny_qwen: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autoround, "run", failing)
    with pytest.raises(QuantizationFailed):
        wb.quantize(ModelRef(tiny_qwen), RECIPE)
    assert list((runs / "checkpoints").iterdir()) == []


KILLED = """
import os, signal, sys
import workbench as wb
from workbench.quant import layers
layers.layer_errors = lambda *a: os.kill(os.getpid(), signal.SIGKILL)
if __name__ == "__main__":
    wb.quantize(wb.ModelRef(sys.argv[1]), wb.QuantRecipe(method="auto-round", scheme="W4A16"))
"""


def test_a_killed_run_leaves_nothing_that_counts_and_the_next_works(
    tiny_wan: Path, runs: Path, tmp_path: Path
) -> None:
    (tmp_path / "killed.py").write_text(KILLED)
    done = subprocess.run(
        [sys.executable, tmp_path / "killed.py", tiny_wan],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == -9, done.stderr
    left = list((runs / "checkpoints").iterdir())
    assert any(f.name.startswith(".") for f in left)
    assert not any((f / store.MANIFEST).exists() for f in left)
    checkpoint = wb.quantize(ModelRef(tiny_wan), RECIPE)
    assert [f.name for f in checkpoint.path.parent.iterdir()] == [checkpoint.key]


def test_a_full_disk_is_told_before_any_work(
    tiny_qwen: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(autoround, "run", lambda *a, **k: pytest.fail("it worked on a full disk"))
    monkeypatch.setattr(store.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 0))
    with pytest.raises(StoreError, match=r"0\.00 GB free and about 0\.02 GB are needed"):
        wb.quantize(ModelRef(tiny_qwen), RECIPE)


def test_a_checkpoint_cannot_be_quantized_again(
    tiny_qwen: Path, shared_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(shared_runs))
    checkpoint = wb.quantize(ModelRef(tiny_qwen), RECIPE)
    with pytest.raises(SpecError, match="is quantized already"):
        wb.quantize(ModelRef(checkpoint.path), RECIPE)


def test_importing_the_workbench_loads_no_quantizer() -> None:
    heavy = ("torch", "auto_round", "diffusers", "transformers")
    code = f"import sys, workbench.quant; sys.exit(any(m in sys.modules for m in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
