"""Weight files rewritten tensor by tensor: one shard of the source is in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import safe_open
from tqdm import tqdm

from workbench import store
from workbench.zoo.weights import PATTERN, TensorFacts

if TYPE_CHECKING:
    from torch import Tensor

Change = Callable[[str, "Tensor"], Mapping[str, "Tensor"]]
"""(name, tensor) of the source -> what is written in its place."""


def rewrite(source: Path, output: Path, change: Change) -> None:
    """Copy the safetensors files of a component, with some tensors replaced.

    Args:
        source: Component folder.
        output: Gets files of the same names, and an index if the source has several files.
        change: Called once for every tensor; returns it unchanged to keep it.
    """
    from safetensors.torch import save_file

    index: dict[str, str] = {}
    total = 0
    files = sorted(source.glob(PATTERN))
    for file in files:
        written: dict[str, Tensor] = {}
        with safe_open(file, framework="pt") as shard:
            names = tqdm(shard.keys(), desc=f"{source.name}/{file.name}", unit="tensor")
            for name in names:
                written.update(change(name, shard.get_tensor(name)))
        save_file(
            {name: tensor.contiguous() for name, tensor in written.items()},
            output / file.name,
            metadata={"format": "pt"},
        )
        index |= dict.fromkeys(written, file.name)
        total += sum(tensor.nbytes for tensor in written.values())
    if len(files) > 1:
        name = next(source.glob(f"{PATTERN}.index.json")).name
        content = {"metadata": {"total_size": total}, "weight_map": dict(sorted(index.items()))}
        store.write_json(output / name, content)


class Reader:
    """Tensors of many files by name, each file opened once."""

    def __init__(self, stack: ExitStack) -> None:
        """Close the files together with ``stack``."""
        self._stack = stack
        self._files: dict[Path, Any] = {}

    def __call__(self, facts: TensorFacts, name: str) -> Tensor:
        """The tensor of that name, as stored."""
        if facts.file not in self._files:
            opened = self._stack.enter_context(safe_open(facts.file, framework="pt"))
            self._files[facts.file] = opened
        return self._files[facts.file].get_tensor(name)
