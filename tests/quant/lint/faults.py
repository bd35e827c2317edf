"""A planted fault: what is done to which good checkpoint, and what the linter must say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planting import WEIGHTS, Shard, Tensor, config, edited

QKV = "transformer_blocks.0.attn.to_q"
MLP = "transformer_blocks.0.img_mlp.net.0.proj"
FILE = f"transformer/{WEIGHTS}"
CONFIG = "transformer/config.json"
Plant = Callable[[Path], None]


@dataclass(frozen=True)
class Case:
    base: str
    plant: Plant
    rule: str
    file: str
    tensor: str = ""
    severity: str = "error"
    said: str = ""
    """Part of the message."""


CASES: list[Case] = []
"""All of them, once the modules ``faulty_*`` are imported."""


def plant(
    base: str, rule: str, file: str, tensor: str = "", severity: str = "error", said: str = ""
) -> Callable[[Plant], Plant]:
    def add(function: Plant) -> Plant:
        CASES.append(Case(base, function, rule, file, tensor, severity, said))
        return function

    return add


@contextmanager
def quantization(folder: Path, component: str = "transformer") -> Iterator[dict[str, Any]]:
    """The quantization config of a component, changed in place."""
    with config(folder / component / "config.json") as content:
        yield content["quantization_config"]


def weights(folder: Path, component: str = "transformer") -> AbstractContextManager[Shard]:
    """The tensors of a component, changed in place."""
    return edited(folder / component / WEIGHTS)


def unquantized(folder: Path, name: str, component: str = "transformer") -> None:
    """Put a BF16 weight in the place of a packed one."""
    with weights(folder, component) as shard:
        owned = [n for n in shard.tensors if n.startswith(f"{name}.") and not n.endswith("bias")]
        packed = shard.tensors[next(n for n in owned if n.endswith(("weight", "qweight")))]
        for one in owned:
            del shard.tensors[one]
        rows, columns = packed.shape
        shape = [columns, rows * 8] if packed.dtype == "I32" else [rows, columns]
        data = bytearray(2 * shape[0] * shape[1])
        shard.tensors[f"{name}.weight"] = Tensor("BF16", shape, data)
