"""How tensor parallelism divides one linear, and when that cuts a group of scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from workbench.schemes import INTEGER
from workbench.zoo.inventory import StoredLinear
from workbench.zoo.parallel import Support
from workbench.zoo.presets import Preset, inside_blocks

TILE = 16
"""Channels of a tile of tensor cores: the least of a packed weight on one rank."""
_WORDS = 2 * TILE  # int32 words of zero points, and the kernels' tiles, on the output side
Side = Literal["outputs", "input channels"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The side of a weight that tensor-parallel ranks divide."""

    side: Side
    count: int
    """Channels of that side."""
    unit: int = 1
    """What each rank's part must be a multiple of."""

    def problem(self, size: int) -> str | None:
        """What a number of ranks cuts, as ``has 11008 input channels, ...``; None if nothing."""
        if size == 1 or (self.count % size == 0 and self.count // size % self.unit == 0):
            return None
        if self.unit == 1:
            return f"has {self.count} {self.side}, which {size} ranks cannot share evenly"
        return (
            f"has {self.count} {self.side}, of which each of {size} ranks cannot hold a multiple "
            f"of {self.unit}"
        )


def side_of(preset: Preset, name: str) -> Side | None:
    """The side that is divided of a linear; None if every rank holds it whole.

    Args:
        preset: The family's.
        name: In the file, without the component.
    """
    # vllm/model_executor/layers/linear.py: ColumnParallelLinear divides outputs (490),
    # RowParallelLinear inputs (1676), and ReplicatedLinear nothing.
    dotted = f".{name}"
    if dotted.endswith(preset.replicated) or not inside_blocks(preset, name):
        return None
    return "input channels" if dotted.endswith(preset.row_parallel) else "outputs"


def unit_of(scheme: str, side: Side, block: int) -> int:
    """What a rank's channels of a packed weight must be a multiple of.

    Args:
        scheme: A name of :data:`workbench.schemes.SCHEMES`.
        side: That is divided.
        block: Input channels that share one scale; 0 where a row or the whole weight does.
    """
    # Groups: vllm/model_executor/kernels/linear/mixed_precision/marlin.py:58. NVFP4 and MXFP8:
    # vllm/model_executor/layers/quantization/modelopt.py:1921 and 2223.
    if side == "input channels":
        return block or TILE
    return _WORDS if scheme in INTEGER else TILE


def share_of(preset: Preset, linear: StoredLinear, *, packed: bool) -> Share | None:
    """How a stored linear is divided; None if every rank holds it whole.

    Args:
        preset: The family's.
        linear: As the file holds it.
        packed: Whether the engine multiplies it as stored, rather than widened to 16 bit.
    """
    side = side_of(preset, linear.name)
    if side is None:
        return None
    outputs, inputs = linear.shape
    count = inputs if side == "input channels" else outputs
    if not packed:
        return Share(side=side, count=count)
    if squares := square_blocks(linear):
        # vllm/model_executor/layers/quantization/utils/fp8_utils.py:1235 and 1252.
        return Share(side=side, count=count, unit=squares[side == "input channels"])
    block = linear.group or (inputs if linear.scheme in INTEGER else 0)  # one group is not cut
    return Share(side=side, count=count, unit=unit_of(linear.scheme, side, block))


def square_blocks(linear: StoredLinear) -> tuple[int, int] | None:
    """(outputs, inputs) of the blocks of an FP8 weight that share one scale, often 128 by 128."""
    scale = linear.tensors.get("weight_scale_inv")
    if scale is None or len(scale.shape) != 2 or not all(scale.shape):
        return None
    outputs, inputs = linear.shape
    return -(-outputs // scale.shape[0]), -(-inputs // scale.shape[1])


def final_problem(support: Support, name: str, outputs: int, size: int) -> str | None:
    """A linear outside the blocks whose outputs the engine wants to divide all the same."""
    if size == 1 or not name.startswith(support.also_divided or ("\0",)) or outputs % size == 0:
        return None
    return (
        f"tensor_parallel_size={size} does not divide the {outputs} outputs of {name} "
        f"({support.also_divided_source}); use a divisor of them"
    )
