"""One safetensors file, from its header alone; https://github.com/huggingface/safetensors."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

LARGEST_HEADER = 100_000_000  # bytes; safetensors itself refuses more
BITS = {
    **dict.fromkeys(("F4",), 4), **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32), **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}  # fmt: skip
"""Bits an element of each dtype that a file may hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFacts:
    """One tensor of a safetensors file."""

    file: Path
    dtype: str
    """safetensors' own name: BF16, F16, F32, I32, F8_E4M3, ..."""
    shape: tuple[int, ...]
    start: int = 0
    """Where its bytes begin in the file."""
    nbytes: int = 0
    """How many there are."""

    @property
    def parameters(self) -> int:
        """Number of elements; 1 for a scalar, 0 for an empty tensor."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something wrong with a file."""

    rule: str
    message: str
    tensor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a file says that it holds, and what is wrong with it."""

    file: Path
    size: int
    """Bytes on disk."""
    tensors: dict[str, TensorFacts] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()


def read_header(file: Path) -> Header:
    """Read a file's header; what is broken comes back as faults, and is never raised."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length, entries = _entries(stream.read(8), stream, size)
    except _Broken as broken:
        return Header(file=file, size=size, faults=(broken.fault,))
    except OSError as error:
        fault = Fault(rule="shard-unreadable", message=f"cannot be read: {error.strerror or error}")
        return Header(file=file, size=0, faults=(fault,))
    faults: list[Fault] = []
    tensors = {}
    for name, entry in entries.items():
        facts = _facts(file, name, entry, 8 + length)
        if isinstance(facts, Fault):
            faults.append(facts)
        else:
            tensors[name] = facts
    faults += _layout(tensors, 8 + length, size, whole=not faults)
    return Header(file=file, size=size, tensors=tensors, faults=tuple(faults))


class _Broken(Exception):
    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.fault = Fault(rule=rule, message=message)


def _entries(head: bytes, stream: Any, size: int) -> tuple[int, dict[str, Any]]:
    if len(head) < 8:
        raise _Broken("shard-truncated", f"has {size} bytes and so no header; download it again")
    (length,) = struct.unpack("<Q", head)
    if length > min(size - 8, LARGEST_HEADER):
        raise _Broken(
            "header-length",
            f"claims a header of {length} bytes, but has {size} bytes in all; it is cut off or "
            "no safetensors file: download or save it again",
        )
    try:
        entries = json.loads(stream.read(length))
    except (ValueError, RecursionError) as error:
        raise _Broken(
            "header-corrupt", f"has a header that is no JSON ({error}); download or save it again"
        ) from None
    if not isinstance(entries, dict):
        raise _Broken("header-corrupt", "has a header that is no JSON object; save it again")
    entries.pop("__metadata__", None)
    return length, entries


def _facts(file: Path, name: str, entry: Any, data: int) -> TensorFacts | Fault:
    try:
        dtype, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        natural = all(type(n) is int and n >= 0 for n in (*shape, start, end))
        natural = natural and isinstance(dtype, str)
    except (KeyError, TypeError, ValueError):
        dtype, natural = "", False
    if not natural or end < start:
        return Fault(
            rule="header-corrupt",
            tensor=name,
            message="has no valid dtype, shape and data_offsets in the header; save it again",
        )
    if dtype not in BITS:
        return Fault(
            rule="dtype-unknown",
            tensor=name,
            message=f"has the dtype {dtype!r}; safetensors knows {', '.join(BITS)}",
        )
    expected = -(-prod(shape) * BITS[dtype] // 8)
    if end - start != expected:
        return Fault(
            rule="tensor-bytes",
            tensor=name,
            message=f"takes {end - start} bytes, but {dtype} {list(shape)} needs {expected}; "
            "save it again",
        )
    return TensorFacts(file=file, dtype=dtype, shape=shape, start=data + start, nbytes=expected)


def _layout(
    tensors: dict[str, TensorFacts], data: int, size: int, *, whole: bool
) -> Iterator[Fault]:
    """Tensors must lie one behind the other, up to the end of the file."""
    end = data
    for name, facts in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].nbytes)):
        stop = facts.start + facts.nbytes
        if facts.nbytes and facts.start < end:
            yield Fault(
                rule="tensor-overlap",
                tensor=name,
                message=f"begins at byte {facts.start}, inside the tensor before it, which ends at "
                f"{end}; save the file again",
            )
        elif whole and facts.start > end:
            yield Fault(
                rule="tensor-gap",
                tensor=name,
                message=f"begins at byte {facts.start}, {facts.start - end} bytes after the tensor "
                "before it; safetensors refuses that: save the file again",
            )
        if stop > size:
            yield Fault(
                rule="shard-truncated",
                tensor=name,
                message=f"ends at byte {stop}, but the file has {size}: cut off, incomplete copy? "
                "Download it again",
            )
        end = max(end, stop)
    if whole and end < size:
        yield Fault(
            rule="shard-surplus",
            message=f"has {size - end} bytes after its last tensor; safetensors refuses that: "
            "download or save it again",
        )
