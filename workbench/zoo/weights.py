"""What the weight files of a component hold, read from their headers alone.

An index is the allow-list: a file or a tensor that it does not name is not part of the model.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.errors import ModelNotFound
from workbench.zoo.headers import Fault, Header, TensorFacts, read_header

__all__ = ["TensorFacts", "WeightFiles", "survey", "tensors", "weight_bytes", "weight_files"]

PATTERN = "*.safetensors"
_UNUSABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
_NUMBERED = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.safetensors")


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFiles:
    """The safetensors files of one folder, and what its index makes of them."""

    folder: Path
    headers: dict[str, Header]
    """Every file on disk, by name."""
    indices: tuple[Path, ...] = ()
    weight_map: dict[str, str] = field(default_factory=dict)
    """Tensor -> file name, from the index; empty without one."""
    total_size: int | None = None
    """Bytes that the index claims."""
    missing: tuple[str, ...] = ()
    """Files that the index or the numbering of the others names, and that are not there."""
    faults: tuple[Fault, ...] = ()
    """What is wrong with the index itself."""

    @property
    def used(self) -> tuple[str, ...]:
        """Names of the files that hold the model, those missing left out."""
        named = set(self.weight_map.values()) if self.weight_map else set(self.headers)
        return tuple(name for name in self.headers if name in named)

    @property
    def unused(self) -> tuple[str, ...]:
        """Names of the files on disk that the index does not name."""
        used = set(self.used)
        return tuple(name for name in self.headers if name not in used)

    @property
    def tensors(self) -> dict[str, TensorFacts]:
        """Every tensor of the model, by name."""
        return {
            name: facts
            for file in self.used
            for name, facts in self.headers[file].tensors.items()
            if not self.weight_map or self.weight_map.get(name) == file
        }

    @property
    def used_bytes(self) -> int:
        """Bytes on disk of the files that hold the model."""
        return sum(self.headers[name].size for name in self.used)

    @property
    def total_bytes(self) -> int:
        """Bytes on disk of all safetensors files."""
        return sum(header.size for header in self.headers.values())


def survey(folder: Path) -> WeightFiles:
    """Read every header and the index of a folder; what is wrong is told, and never raised."""
    headers = {file.name: read_header(file) for file in sorted(folder.glob(PATTERN))}
    indices = tuple(sorted(folder.glob(f"{PATTERN}.index*.json")))
    weight_map, total, faults = _index(indices[0]) if indices else ({}, None, ())
    named = set(weight_map.values()) if weight_map else _numbered(headers)
    return WeightFiles(
        folder=folder,
        headers=headers,
        indices=indices,
        weight_map=weight_map,
        total_size=total,
        missing=tuple(sorted(named - set(headers))),
        faults=faults,
    )


def tensors(folder: Path) -> dict[str, TensorFacts]:
    """Every tensor of one component, whatever number of shards it lies in.

    Raises:
        ModelNotFound: no safetensors file there, a broken or a missing one.
    """
    files = survey(folder)
    if not files.headers and not files.missing:
        raise ModelNotFound(
            f"{folder} holds no {PATTERN}; save the pipeline with safe_serialization=True, "
            "or download it again"
        )
    _whole(files)
    return files.tensors


def weight_files(folder: Path) -> list[Path]:
    """Weight files of one component, and their index if there are several."""
    return sorted([*folder.glob(PATTERN), *folder.glob(f"{PATTERN}.index.json")])


def weight_bytes(folder: Path) -> dict[str, int]:
    """Bytes of the weight files of each component of a pipeline that its index names.

    Raises:
        ModelNotFound: an index names a file that is not there, so there is no size to tell.
    """
    sizes = {}
    for child in sorted(folder.iterdir()):
        if child.is_dir() and not child.name.startswith("."):
            files = survey(child)
            _present(files)
            sizes[child.name] = files.used_bytes
    return {name: size for name, size in sizes.items() if size}


def _whole(files: WeightFiles) -> None:
    _present(files)
    for name in files.used:
        header = files.headers[name]
        if header.faults:
            fault = header.faults[0]
            raise ModelNotFound(
                f"{header.file} is no whole safetensors file: "
                f"{' '.join(filter(None, (fault.tensor, fault.message)))}; "
                "workbench.lint(folder) lists everything"
            )
    absent = sorted(set(files.weight_map) - set(files.tensors))
    if absent:
        raise ModelNotFound(
            f"{files.indices[0]} names {len(absent)} tensors that {files.weight_map[absent[0]]} "
            f"does not hold, {absent[0]} first; the index is of another checkpoint, or the copy "
            "is incomplete: download it again"
        )


def _present(files: WeightFiles) -> None:
    if files.faults:
        raise ModelNotFound(f"{files.indices[0]} {files.faults[0].message}")
    if files.missing:
        raise ModelNotFound(
            f"{files.folder} lacks {', '.join(files.missing)}: incomplete copy? Download it again"
        )


def _index(file: Path) -> tuple[dict[str, str], int | None, tuple[Fault, ...]]:
    try:
        content = json.loads(file.read_text())
        weight_map = content["weight_map"]
        if not weight_map or not all(_plain(name) for name in {*weight_map.values()}):
            raise ValueError("weight_map is empty, or names something else than files beside it")
        total = content.get("metadata", {}).get("total_size")
    except _UNUSABLE as error:
        problem = f"is no usable index ({type(error).__name__}: {error}); download it again"
        return {}, None, (Fault(rule="index-broken", message=problem),)
    return weight_map, _number(total), ()


def _plain(name: Any) -> bool:
    """Whether an index names a file that lies beside it."""
    return isinstance(name, str) and Path(name).name == name and name.endswith(".safetensors")


def _number(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _numbered(headers: dict[str, Header]) -> set[str]:
    """Names of all shards of the sets of which some are there."""
    names = set(headers)
    for name in headers:
        if found := _NUMBERED.fullmatch(name):
            count = int(found["count"])
            names |= {
                f"{found['stem']}-{n:05d}-of-{count:05d}.safetensors" for n in range(1, count + 1)
            }
    return names
