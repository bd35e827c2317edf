"""What the weight files of a pipeline hold, read from their headers alone."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path

from workbench.errors import ModelNotFound

PATTERN = "*.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFacts:
    """One tensor of a safetensors file."""

    file: Path
    dtype: str
    """safetensors' own name: BF16, F16, F32, I32, F8_E4M3, ..."""
    shape: tuple[int, ...]

    @property
    def parameters(self) -> int:
        """Number of elements."""
        return prod(self.shape)


def tensors(folder: Path) -> dict[str, TensorFacts]:
    """Every tensor of one component, whatever number of shards it lies in.

    Raises:
        ModelNotFound: no safetensors file there, or a broken one.
    """
    files = sorted(folder.glob(PATTERN))
    if not files:
        raise ModelNotFound(
            f"{folder} holds no {PATTERN}; save the pipeline with safe_serialization=True, "
            "or download it again"
        )
    return {name: facts for file in files for name, facts in _header(file).items()}


def weight_files(folder: Path) -> list[Path]:
    """Weight files of one component, and their index if there are several."""
    return sorted([*folder.glob(PATTERN), *folder.glob(f"{PATTERN}.index.json")])


def weight_bytes(folder: Path) -> dict[str, int]:
    """Bytes of the weight files of each component of a pipeline, by component."""
    sizes = {
        child.name: sum(file.stat().st_size for file in child.glob(PATTERN))
        for child in sorted(folder.iterdir())
        if child.is_dir() and not child.name.startswith(".")
    }
    return {name: size for name, size in sizes.items() if size}


def _header(file: Path) -> dict[str, TensorFacts]:
    """Header of a safetensors file; https://github.com/huggingface/safetensors gives the format."""
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            header = json.loads(stream.read(min(length, file.stat().st_size)))
        header.pop("__metadata__", None)
        end = 8 + length + max((tensor["data_offsets"][1] for tensor in header.values()), default=0)
    except (struct.error, ValueError, KeyError, TypeError):
        end, header = -1, {}
    if end != file.stat().st_size:
        raise ModelNotFound(f"{file} is no whole safetensors file; download or save it again")
    return {
        name: TensorFacts(file=file, dtype=value["dtype"], shape=tuple(value["shape"]))
        for name, value in header.items()
    }
