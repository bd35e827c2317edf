"""Edit a safetensors file tensor by tensor, or break it."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

WEIGHTS = "diffusion_pytorch_model.safetensors"


@dataclass
class Tensor:
    dtype: str
    shape: list[int]
    data: bytearray

    def fill(self, array: np.ndarray) -> None:
        """Replace every byte."""
        self.data = bytearray(np.ascontiguousarray(array).tobytes())

    @property
    def f32(self) -> np.ndarray:
        return np.frombuffer(self.data, np.float32)

    @property
    def u8(self) -> np.ndarray:
        """Writable."""
        return np.frombuffer(self.data, np.uint8)


@dataclass
class Shard:
    """The tensors of one file, and the header as it will be written."""

    tensors: dict[str, Tensor]
    change: Callable[[dict[str, Any]], None] = field(default=lambda header: None)
    """Edits the header after the offsets are set."""


def read(file: Path) -> Shard:
    raw = file.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    return Shard(
        {
            name: Tensor(
                entry["dtype"],
                entry["shape"],
                bytearray(raw[8 + length :][slice(*entry["data_offsets"])]),
            )
            for name, entry in header.items()
        }
    )


def write(file: Path, shard: Shard) -> None:
    header, body = {}, b""
    for name, tensor in shard.tensors.items():
        offsets = [len(body), len(body) + len(tensor.data)]
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": offsets}
        body += tensor.data
    shard.change(header)
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + body)


@contextmanager
def edited(file: Path) -> Iterator[Shard]:
    shard = read(file)
    yield shard
    write(file, shard)


@contextmanager
def config(file: Path) -> Iterator[dict[str, Any]]:
    """A JSON file, changed in place."""
    content = json.loads(file.read_text())
    yield content
    file.write_text(json.dumps(content))


def split(folder: Path, *, parts: int = 2) -> list[Path]:
    """Turn a component of one file into shards with an index."""
    whole = folder / WEIGHTS
    shard = read(whole)
    whole.unlink()
    names = list(shard.tensors)
    stem = WEIGHTS.removesuffix(".safetensors")
    files = [folder / f"{stem}-{n + 1:05d}-of-{parts:05d}.safetensors" for n in range(parts)]
    weight_map = {}
    for number, file in enumerate(files):
        own = names[number::parts]
        write(file, Shard({name: shard.tensors[name] for name in own}))
        weight_map |= dict.fromkeys(own, file.name)
    total = sum(len(tensor.data) for tensor in shard.tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps(index))
    return files


def copy(source: Path, target: Path) -> Path:
    """A copy of a checkpoint whose transformers can be changed; the rest is linked."""
    for file in source.rglob("*"):
        place = target / file.relative_to(source)
        if file.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        elif file.stat().st_size < 1 << 20 or "transformer" in file.parent.name:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.hardlink_to(file)
    return target
