from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from workbench.errors import ModelNotFound
from workbench.zoo.weights import tensors, weight_bytes


def test_shards_are_read_together(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2, 3)}, tmp_path / "model-00001-of-00002.safetensors")
    save_file(
        {"b": torch.zeros(4, dtype=torch.bfloat16)}, tmp_path / "model-00002-of-00002.safetensors"
    )
    found = tensors(tmp_path)
    assert {n: (f.dtype, f.shape, f.parameters) for n, f in found.items()} == {
        "a": ("F32", (2, 3), 6), "b": ("BF16", (4,), 4),
    }  # fmt: skip


def test_bytes_are_those_on_disk(tmp_path: Path) -> None:
    (tmp_path / "vae").mkdir()
    (tmp_path / "scheduler").mkdir()
    save_file({"a": torch.zeros(2, 3)}, tmp_path / "vae" / "model.safetensors")
    assert weight_bytes(tmp_path) == {
        "vae": (tmp_path / "vae" / "model.safetensors").stat().st_size
    }


@pytest.mark.parametrize("keep", [0, 5, 40, -1])
def test_a_broken_file_is_named(keep: int, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    save_file({"a": torch.zeros(20, 3)}, file)
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(ModelNotFound, match=r"model\.safetensors is no whole safetensors file"):
        tensors(tmp_path)


def test_no_weights_at_all(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="holds no"):
        tensors(tmp_path)
