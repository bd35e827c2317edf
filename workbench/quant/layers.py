"""What packing did to each linear, measured on the written file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from safetensors import safe_open

from workbench.errors import QuantizationFailed
from workbench.quant.packing import PARTS, dequantize, relative_error
from workbench.records import LayerError
from workbench.zoo.weights import tensors


def check_layers(folder: Path, expected: tuple[str, ...]) -> None:
    """Prove that exactly the planned linears were packed.

    Raises:
        QuantizationFailed: one is missing, or one too many.
    """
    written = {n.removesuffix(".qweight") for n in tensors(folder) if n.endswith(".qweight")}
    missing, surplus = sorted(set(expected) - written), sorted(written - set(expected))
    if missing or surplus:
        raise QuantizationFailed(
            f"the quantizer packed other layers of the {folder.name} than asked: "
            f"{len(missing)} missing {missing[:3]}, {len(surplus)} too many {surplus[:3]}"
        )


def layer_errors(source: Path, written: Path, names: tuple[str, ...]) -> Iterator[LayerError]:
    """Relative weight error of each packed linear against the source tensor.

    Args:
        source: Component folder of the 16-bit model.
        written: Component folder of the checkpoint.
        names: The packed linears.

    Raises:
        QuantizationFailed: a layer came out with values that are not finite.
    """
    before, after = tensors(source), tensors(written)
    with ExitStack() as stack:
        files = {
            file: stack.enter_context(safe_open(file, framework="pt"))
            for file in {facts.file for facts in (*before.values(), *after.values())}
        }
        for name in names:
            original = files[before[f"{name}.weight"].file].get_tensor(f"{name}.weight")
            packed = [files[after[f"{name}.{p}"].file].get_tensor(f"{name}.{p}") for p in PARTS]
            error = relative_error(dequantize(*packed), original)
            if not math.isfinite(error):
                raise QuantizationFailed(f"{written.name}.{name} holds values that are not finite")
            yield LayerError(
                component=written.name, name=name, relative_error=error, parameters=original.numel()
            )
