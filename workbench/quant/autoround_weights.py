"""Of what AutoRound wrote only the packed weights count; every other tensor is the source's own.

AutoRound computes in the best dtype of the host and writes untouched tensors in it (float32 on a
CPU without AVX512-BF16), and biases of packed layers in float16. vLLM casts either to the dtype
that it runs in (``LinearBase`` in vllm/model_executor/layers/linear.py makes the bias in
``params_dtype`` and copies into it, on CPU and GPU), so the source's bytes are right everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import QuantizationFailed
from workbench.quant.layers import check_layers
from workbench.quant.shards import Reader, rewrite
from workbench.schemes import SCHEMES
from workbench.zoo.inventory import linears
from workbench.zoo.presets import Preset

if TYPE_CHECKING:
    from torch import Tensor


def merge(
    source: Path, packed: Path, output: Path, *, layers: Mapping[str, str], preset: Preset
) -> None:
    """Write a component: planned linears as AutoRound packed them, the rest bit for bit.

    Args:
        source: Component folder of the 16-bit model; gives file names and shards.
        packed: Component folder that AutoRound wrote.
        output: Folder to fill.
        layers: The planned linears and their schemes.
        preset: The family's.

    Raises:
        QuantizationFailed: AutoRound packed other linears than planned, or left a tensor out.
    """
    check_layers(packed, layers, preset)
    found = linears(packed)
    output.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        read = Reader(stack)

        def change(name: str, tensor: Tensor) -> Mapping[str, Tensor]:
            owner, _, part = name.rpartition(".")
            if part != "weight" or owner not in layers:
                return {name: tensor}
            scheme, facts = SCHEMES[layers[owner]], found[owner].tensors
            missing = [one for one in (scheme.weight, *scheme.scales) if one not in facts]
            if missing:
                raise QuantizationFailed(
                    f"AutoRound wrote {owner} in {scheme.name} without {', '.join(missing)}"
                )
            parts = (scheme.weight, *scheme.scales)
            return {f"{owner}.{one}": read(facts[one], f"{owner}.{one}") for one in parts}

        rewrite(source, output, change)
