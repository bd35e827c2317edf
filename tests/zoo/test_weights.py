import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from workbench.errors import ModelNotFound
from workbench.zoo.weights import survey, tensors, weight_bytes


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


def test_scalars_and_empty_tensors_are_tensors(tmp_path: Path) -> None:
    save_file({"a": torch.tensor(2.0), "b": torch.zeros(0, 3)}, tmp_path / "model.safetensors")
    found = tensors(tmp_path)
    assert {n: (f.shape, f.parameters, f.nbytes) for n, f in found.items()} == {
        "a": ((), 1, 4), "b": ((0, 3), 0, 0),
    }  # fmt: skip
    start = found["a"].start
    assert (tmp_path / "model.safetensors").read_bytes()[start : start + 4] == b"\0\0\0@"


def index(folder: Path, **weight_map: str) -> None:
    content = {"metadata": {"total_size": 4}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(content))


def test_the_index_is_an_allow_list_of_files_and_of_tensors(tmp_path: Path) -> None:
    folder = tmp_path / "transformer"
    folder.mkdir()
    save_file({"a": torch.zeros(1), "stray": torch.zeros(9)}, folder / "one.safetensors")
    save_file({"a": torch.zeros(8)}, folder / "stale.safetensors")
    index(folder, a="one.safetensors")
    assert {n: (f.file.name, f.shape) for n, f in tensors(folder).items()} == {
        "a": ("one.safetensors", (1,))
    }
    assert weight_bytes(tmp_path) == {"transformer": (folder / "one.safetensors").stat().st_size}
    files = survey(folder)
    assert files.unused == ("stale.safetensors",)
    assert files.total_bytes > files.used_bytes


@pytest.mark.parametrize(
    ("weight_map", "said"),
    [
        ({"a": "gone.safetensors"}, r"lacks gone\.safetensors: incomplete copy\?"),
        ({"b": "one.safetensors"}, r"names 1 tensors that one\.safetensors does not hold, b first"),
        ({"a": "../one.safetensors"}, "no usable index"),
        ({}, "no usable index"),
    ],
)
def test_an_index_of_another_checkpoint_is_an_error(
    weight_map: dict[str, str], said: str, tmp_path: Path
) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "one.safetensors")
    index(tmp_path, **weight_map)
    with pytest.raises(ModelNotFound, match=said):
        tensors(tmp_path)


def test_shards_without_an_index_are_counted_by_their_numbers(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "model-00002-of-00003.safetensors")
    with pytest.raises(ModelNotFound, match=r"lacks model-00001-of-00003.*, model-00003-of-00003"):
        tensors(tmp_path)
