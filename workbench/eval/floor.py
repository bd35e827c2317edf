"""How far the reference lies from itself: what no candidate can be told apart from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from workbench.errors import ComparisonRefused
from workbench.eval.guard import conditions
from workbench.eval.population import worst
from workbench.records import GenerationSet

if TYPE_CHECKING:
    from workbench.eval.comparison import Comparison

AgainstFloor = Literal["identical", "inside the floor", "above", "no floor measured", "not finite"]


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseFloor:
    """The reference against itself under other conditions. Made by :func:`workbench.noise_floor`.

    Pass it as ``compare(..., floor=)``: each comparison takes the floor that its own conditions
    call for.
    """

    reference: GenerationSet
    measured: Mapping[str, Comparison] = field(default_factory=dict)
    """``repeat``, ``attention_backend=FLASH_ATTN``, ``tensor_parallel_size=2``, ``diffusers``, ...
    -> the reference against itself, changed in that alone."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Conditions that could not be measured here, and why."""

    @property
    def repeat(self) -> Comparison:
        """The reference against its repeat.

        Raises:
            ComparisonRefused: it was not measured.
        """
        found = self.belonging(self.reference)
        if found is None:
            raise ComparisonRefused(
                f"this floor holds {', '.join(self.measured) or 'nothing'}, and no repeat of the "
                "reference; measure it with noise_floor(reference, repeats=1)"
            )
        return found

    def belonging(self, candidate: GenerationSet) -> Comparison | None:
        """The floor of a candidate: the one run under its conditions; of several the farthest."""
        wanted = conditions(candidate)
        found = [one for one in self.measured.values() if conditions(one.candidate) == wanted]
        return max(found, key=_farthest, default=None)

    def table(self) -> pd.DataFrame:
        """One row a condition.

        Returns:
            condition; n; identical (pairs with equal pixels); relative_l2 and relative_l2_max
            (median and largest, of the final latents); psnr_db and psnr_db_min (median and least,
            infinite where pixels are equal); says (in words).
        """
        rows = [_row(name, one) for name, one in self.measured.items()]
        rows += [
            {"condition": name, "says": f"not measured: {why}"}
            for name, why in self.missing.items()
        ]
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        return "; ".join(f"{row.condition}: {row.says}" for row in self.table().itertuples())


def against_floor(metrics: pd.DataFrame, floor: Comparison | None) -> AgainstFloor:
    """Where the median of the final latents' relative L2 lies.

    Args:
        metrics: :meth:`Comparison.summary`.
        floor: The reference against itself; None where that was not measured.
    """
    latents = metrics.loc["relative_l2"]
    if latents["finite"] < latents["n"]:
        return "not finite"
    if latents["identical"] == latents["n"]:
        return "identical"
    if floor is None:
        return "no floor measured"
    return "inside the floor" if latents["median"] <= _farthest(floor) else "above"


def _farthest(one: Comparison) -> float:
    return worst(one.table()["relative_l2"], "relative_l2")


def _row(name: str, one: Comparison) -> dict[str, Any]:
    metrics = one.summary()
    latents, psnr = metrics.loc["relative_l2"], metrics.reindex(["psnr_db"]).loc["psnr_db"]
    n, identical = int(latents["n"]), int(latents["identical"])
    return {
        "condition": name,
        "n": n,
        "identical": identical,
        "relative_l2": latents["median"],
        "relative_l2_max": latents["max"],
        "psnr_db": psnr["median"],
        "psnr_db_min": psnr["min"],
        "says": _says(identical, n, latents, psnr["min"]),
    }


def _says(identical: int, n: int, latents: pd.Series, psnr_db: float) -> str:
    if latents["finite"] < n:
        return f"latents have no finite distance in {n - latents['finite']:.0f} of {n} pairs"
    farthest = latents["max"]
    if identical == n and farthest == 0:
        return f"bit by bit the same in all {n} pairs, so this floor is zero"
    moved = f"latents move by up to {farthest:.2g} of their norm"
    if identical == n:
        return f"{moved}, pixels are the same in all {n} pairs"
    down = f", PSNR down to {psnr_db:.1f} dB" if math.isfinite(psnr_db) else ""
    return f"{moved}{down}; {identical} of {n} pairs have the same pixels"
