"""W4A16 with W8A16, layer by layer, where a measured sensitivity says who gets the more bits.

AutoRound's own AutoScheme takes no diffusion pipeline: ``ValueError: tokenizer must not be None if
model is nn.Module`` (0.16.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workbench import store
from workbench.quant.plan import Plan
from workbench.recipes import QuantRecipe

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.quant.sensitivity import Fake


def decide(source: Path, output: Path, *, recipe: QuantRecipe, plan: Plan, trust: bool) -> Plan:
    """Run the calibration prompts, measure every layer in both schemes, and choose.

    Args:
        source: Pipeline in diffusers layout.
        output: Gets the tables of what was measured.
        recipe: MIXED with ``effective_bits``.
        plan: All layers in the small scheme.
        trust: Run code that the model folder brings along.

    Returns:
        The plan with the chosen schemes.
    """
    from workbench.quant.calibration import calibrate

    result = calibrate(source, recipe, plan, fakes=fakes(recipe.block), trust=trust)
    output.mkdir(parents=True, exist_ok=True)
    for name, table in result.tables.items():
        store.write_json(output / name, table)
    return result.plan


def fakes(group_size: int) -> dict[str, Fake]:
    """Numerics of W4A16 and W8A16: weights rounded to nearest in groups, inputs untouched.

    Args:
        group_size: Input channels that share a scale.
    """
    from workbench.quant.sensitivity import Fake

    def fake(bits: int) -> Fake:
        def weights(members: Sequence[Tensor]) -> Sequence[Tensor]:
            return [rounded(weight, bits, group_size) for weight in members]

        return Fake(weights=weights)

    return {"W4A16": fake(4), "W8A16": fake(8)}


def rounded(weight: Tensor, bits: int, group_size: int) -> Tensor:
    """Round to nearest as AutoRound does: the largest value of a group is -2**(bits-1) steps.

    Args:
        weight: ``[out, in]``.
        bits: 4 or 8.
        group_size: Neighbouring inputs that share a scale; divides ``in``.

    Returns:
        float32 ``[out, in]``.
    """
    groups = weight.float().reshape(weight.shape[0], -1, group_size)
    largest = groups.gather(2, groups.abs().argmax(dim=2, keepdim=True))
    scale = -largest / 2 ** (bits - 1)
    scale = scale.where(scale != 0, scale.new_ones(()))
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return ((groups / scale).round().clamp(low, high) * scale).reshape(weight.shape)
