"""What packing did to each linear, measured on the written file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from safetensors import safe_open

from workbench.errors import QuantizationFailed
from workbench.quant.packing import dequantize, relative_error
from workbench.records import LayerError
from workbench.zoo.inventory import linears
from workbench.zoo.weights import TensorFacts, tensors


def check_layers(folder: Path, expected: Mapping[str, str]) -> None:
    """Prove that exactly the planned linears were quantized, each in its planned scheme.

    Raises:
        QuantizationFailed: one is missing, one too many, or one in another scheme.
    """
    written = {name: one.scheme for name, one in linears(folder).items() if one.quantized}
    missing, surplus = sorted(set(expected) - set(written)), sorted(set(written) - set(expected))
    other = [f"{n} in {written[n]}" for n in written if n in expected and written[n] != expected[n]]
    if missing or surplus or other:
        raise QuantizationFailed(
            f"the quantizer packed other layers of the {folder.name} than asked: "
            f"{len(missing)} missing {missing[:3]}, {len(surplus)} too many {surplus[:3]}, "
            f"{len(other)} otherwise {other[:3]}"
        )


def layer_errors(source: Path, written: Path, layers: Mapping[str, str]) -> Iterator[LayerError]:
    """Relative weight error of each quantized linear against the source tensor.

    Args:
        source: Component folder of the 16-bit model.
        written: Component folder of the checkpoint.
        layers: The quantized linears and their schemes.

    Raises:
        QuantizationFailed: a layer came out with values that are not finite.
    """
    before, after = tensors(source), linears(written)
    with ExitStack() as stack:
        read = _reader(stack)
        for name, scheme in layers.items():
            original = read(before[f"{name}.weight"], f"{name}.weight")
            parts = {
                part: read(facts, f"{name}.{part}") for part, facts in after[name].tensors.items()
            }
            error = relative_error(dequantize(parts, scheme), original)
            if not math.isfinite(error):
                raise QuantizationFailed(f"{written.name}.{name} holds values that are not finite")
            yield LayerError(
                component=written.name,
                name=name,
                scheme=scheme,
                relative_error=error,
                parameters=original.numel(),
            )


def _reader(stack: ExitStack) -> Callable[[TensorFacts, str], Any]:
    files: dict[Path, Any] = {}

    def read(facts: TensorFacts, name: str) -> Any:
        if facts.file not in files:
            files[facts.file] = stack.enter_context(safe_open(facts.file, framework="pt"))
        return files[facts.file].get_tensor(name)

    return read
