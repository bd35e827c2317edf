"""A folder that is quantized already says itself as what it serves."""

import json
import shutil
from pathlib import Path

import pytest

import workbench as wb
from workbench.errors import SpecError
from workbench.records import Checkpoint
from workbench.serve.requests import launch_spec
from workbench.serve.stored import stored_label

CONFIG = "transformer/config.json"


def config_of(folder: Path, **changes: object) -> None:
    """Change the transformer's config; None takes an entry out."""
    values = json.loads((folder / CONFIG).read_text()) | changes
    text = json.dumps({name: value for name, value in values.items() if value is not None})
    (folder / CONFIG).write_text(text)


@pytest.fixture
def copy(w4a16: Checkpoint, tmp_path: Path) -> Path:
    return Path(shutil.copytree(w4a16.path, tmp_path / "copy"))


def test_a_16_bit_folder_holds_nothing(tiny_qwen: Path) -> None:
    assert stored_label(tiny_qwen) is None
    assert launch_spec(str(tiny_qwen))[0].precision == "BF16"


def test_the_label_comes_from_the_tensors_not_from_the_name_of_the_method(copy: Path) -> None:
    config = json.loads((copy / CONFIG).read_text())["quantization_config"]
    config_of(copy, quantization_config={**config, "quant_method": "something"})
    assert launch_spec(str(copy))[0].stored == "W4A16"


def test_online_quantization_of_a_quantized_folder_is_refused_with_the_way_out(copy: Path) -> None:
    with pytest.raises(SpecError, match="is W4A16 already; drop quantization"):
        launch_spec(str(copy), quantization="fp8")


def test_quantized_files_without_metadata_are_refused(copy: Path) -> None:
    config_of(copy, quantization_config=None)
    with pytest.raises(SpecError, match=r"26 linears in fewer than 16 bits .* says nothing of it"):
        stored_label(copy)


def test_metadata_without_quantized_files_is_refused(tiny_qwen: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_qwen, tmp_path / "claims"))
    config_of(folder, quantization_config={"quant_method": "fp8"})
    with pytest.raises(SpecError, match=r"quantization_config \(fp8\), but all weights"):
        launch_spec(str(folder))


def test_a_path_launches_by_its_metadata_alone_and_is_proved(w4a16: Checkpoint, runs: Path) -> None:
    with wb.launch(str(w4a16.path)) as engine:
        assert engine.spec.recipe is None
        assert engine.spec.precision == engine.audit.requested == "W4A16"
        assert engine.audit.verdict == "as requested"
        assert f"read back against {w4a16.model.source}" in engine.audit.proved
        assert engine.audit.flops_coverage is None  # nothing was asked yet


def test_what_does_not_say_its_source_is_held_against_its_own_files(copy: Path, runs: Path) -> None:
    (copy / "manifest.json").unlink()
    with wb.launch(str(copy)) as engine:
        assert engine.audit.verdict == "as requested"
        assert engine.audit.proved.startswith(
            "weights read back against its files (copy does not say which 16-bit model it was made"
        )
        errors = [x.weight_error for x in engine.audit.layers if x.weight_error is not None]
        assert len(errors) > 8
        assert max(errors) < 0.004  # products are rounded to bfloat16
