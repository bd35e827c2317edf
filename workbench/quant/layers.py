"""What packing did to each linear, measured on the written file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from workbench.errors import QuantizationFailed
from workbench.quant.packing import dequantize, relative_error
from workbench.quant.shards import Reader
from workbench.records import LayerError
from workbench.zoo.inventory import StoredLinear, linears
from workbench.zoo.names import canonical
from workbench.zoo.presets import Preset
from workbench.zoo.weights import tensors


def check_layers(folder: Path, expected: Mapping[str, str], preset: Preset) -> None:
    """Prove that exactly the planned linears were quantized, each in its planned scheme.

    Args:
        folder: Component folder of the checkpoint.
        expected: The quantized linears, by the source's names, and their schemes.
        preset: Says how names in a checkpoint may differ from the source's.

    Raises:
        QuantizationFailed: one is missing, one too many, or one in another scheme.
    """
    found = _written(folder, preset)
    written = {name: one.scheme for name, one in found.items() if one.quantized}
    missing, surplus = sorted(set(expected) - set(written)), sorted(set(written) - set(expected))
    other = [f"{n} in {written[n]}" for n in written if n in expected and written[n] != expected[n]]
    if missing or surplus or other:
        raise QuantizationFailed(
            f"the quantizer packed other layers of the {folder.name} than asked: "
            f"{len(missing)} missing {missing[:3]}, {len(surplus)} too many {surplus[:3]}, "
            f"{len(other)} otherwise {other[:3]}"
        )


def layer_errors(
    source: Path, written: Path, layers: Mapping[str, str], preset: Preset
) -> Iterator[LayerError]:
    """Relative weight error of each quantized linear against the source tensor.

    Args:
        source: Component folder of the 16-bit model.
        written: Component folder of the checkpoint.
        layers: The quantized linears, by the source's names, and their schemes.
        preset: Says how names in the checkpoint may differ from the source's.

    Raises:
        QuantizationFailed: a layer came out with values that are not finite.
    """
    before, after = tensors(source), _written(written, preset)
    with ExitStack() as stack:
        read = Reader(stack)
        for name, scheme in layers.items():
            original = read(before[f"{name}.weight"], f"{name}.weight")
            stored = after[name]
            parts = {
                part: read(facts, f"{stored.name}.{part}") for part, facts in stored.tensors.items()
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


def coverage(source: Path, layers: Iterable[str]) -> float:
    """Share of a transformer's linear parameters that are quantized, 0 to 1.

    Args:
        source: Component folder of the 16-bit model.
        layers: Its quantized linears.
    """
    stored = linears(source)
    every = sum(one.parameters for one in stored.values())
    return sum(stored[name].parameters for name in layers) / every


def _written(folder: Path, preset: Preset) -> dict[str, StoredLinear]:
    """Linears of a checkpoint by the names that they have in the source."""
    return {canonical(preset, name): one for name, one in linears(folder).items()}
