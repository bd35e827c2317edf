"""Reference against candidate, pair by pair."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from workbench.eval import guard
from workbench.eval.labels import label
from workbench.eval.trajectory import divergence, envelope, first_step_outside
from workbench.records import Generation, GenerationSet

if TYPE_CHECKING:
    from PIL import Image
    from plotly.graph_objects import Figure

    from workbench.eval.media import Html

METRICS = ("psnr_db", "ssim", "relative_l2")
IDENTICAL = "identical to the reference: precision not applied?"


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """What a change of precision did to each picture. Made by :func:`compare`."""

    reference: GenerationSet
    candidate: GenerationSet
    floor: Comparison | None = None
    """The reference against its own repeat; None where that was not measured."""
    pairs: tuple[guard.Pair, ...] = field(repr=False)
    """(reference, candidate) of each row of :meth:`table`."""
    _table: pd.DataFrame = field(repr=False)
    _steps: pd.DataFrame = field(repr=False)

    @property
    def flag(self) -> str:
        """What makes the candidate suspect: pixels equal to those of another precision; or ""."""
        if self._table["identical"].any() and _other_precision(self.reference, self.candidate):
            return IDENTICAL
        return ""

    def table(self) -> pd.DataFrame:
        """One row a pair, worst PSNR first.

        Returns:
            prompt, seed, psnr_db (infinite when identical), ssim (-1 to 1), relative_l2 (of the
            final latents), first_step_outside (the floor; missing when never, or without a floor),
            identical.
        """
        return self._table.copy()

    def steps(self) -> pd.DataFrame:
        """One row a pair and denoising step.

        Returns:
            precision, prompt, seed, and the columns of :func:`divergence`: step, timestep,
            relative_l2, cosine.
        """
        return self._steps.copy()

    def summary(self) -> pd.DataFrame:
        """Spread of each metric over the pairs.

        Returns:
            Index psnr_db, ssim, relative_l2; columns n, identical (pairs with equal pixels), finite
            (pairs counted in what follows), min, q1, median, q3, max.
        """
        from workbench.eval.fidelity import spread

        counts = {"n": len(self._table), "identical": int(self._table["identical"].sum())}
        rows = {name: counts | spread(self._table[name]) for name in METRICS}
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("metric")

    def plot_divergence(self) -> Figure:
        """Relative L2 by denoising step, with the floor where there is one."""
        from workbench.eval.figures import divergence_by_step

        return divergence_by_step(self._steps, floor=self.floor and self.floor.steps())

    def flip(self, index: int = 0) -> Html:
        """Flip between the two pictures of row ``index`` of :meth:`table`; 0 is the worst pair.

        Raises:
            IndexError: no such row.
        """
        from workbench.eval.media import flip

        reference, candidate = self.pairs[index]
        names = (label(self.reference), label(self.candidate))
        return flip((reference.image, candidate.image), labels=names, caption=self._caption(index))

    def scrub(
        self,
        index: int,
        reference_frames: Sequence[Image.Image],
        candidate_frames: Sequence[Image.Image],
    ) -> Html:
        """Slide through the denoising steps of row ``index``.

        Args:
            index: row of :meth:`table`; 0 is the worst pair.
            reference_frames: steps + 1 pictures, decoded from
                ``pairs[index][0].trajectory.latents``.
            candidate_frames: the same of ``pairs[index][1]``.

        Raises:
            IndexError: no such row.
            ComparisonRefused: not one picture a latent.
        """
        from workbench.eval.media import scrubber

        frames = {
            f"reference {label(self.reference)}": reference_frames,
            f"candidate {label(self.candidate)}": candidate_frames,
        }
        timesteps = self.pairs[index][0].trajectory.timesteps
        return scrubber(frames, timesteps, caption=self._caption(index))

    def _caption(self, index: int) -> str:
        row = self._table.iloc[index]
        return f"{row.prompt} · seed {row.seed} · PSNR {row.psnr_db:.1f} dB · SSIM {row.ssim:.3f}"


def compare(
    reference: GenerationSet, candidate: GenerationSet, *, floor: Comparison | None = None
) -> Comparison:
    """Compare two sets that differ in precision alone, by prompt and seed.

    Args:
        reference: usually BF16.
        candidate: the same request at another precision, or a repeat of the reference: the floor.
        floor: ``compare(reference, repeat)``; gives every row its first step outside.

    Warns when pairs are missing from one set, when a set meets itself, and when two precisions gave
    identical pixels.

    Raises:
        ComparisonRefused: unequal sampling, layout, timesteps or initial noise; a failed audit; no
            pair in common.
    """
    guard.refuse_unlike(reference, candidate)
    if floor is not None:
        guard.refuse_foreign_floor(reference, (floor.reference, floor.candidate))
    found = guard.pairs(reference, candidate)
    steps = [divergence(a.trajectory, b.trajectory) for a, b in found]
    limit = None if floor is None else envelope(floor.steps())
    table = pd.DataFrame([_row(pair, of, limit) for pair, of in zip(found, steps, strict=True)])
    table = table.astype({"first_step_outside": "Int64"}).sort_values("psnr_db", kind="stable")
    _warn_of_identical(reference, candidate, table["identical"])
    return Comparison(
        reference=reference,
        candidate=candidate,
        floor=floor,
        pairs=tuple(found[i] for i in table.index),
        _table=table.reset_index(drop=True),
        _steps=pd.concat(
            [_named(label(candidate), pair[0], of) for pair, of in zip(found, steps, strict=True)],
            ignore_index=True,
        ),
    )


def _row(pair: guard.Pair, steps: pd.DataFrame, limit: pd.Series | None) -> dict[str, Any]:
    from workbench.eval.fidelity import psnr_db, ssim

    reference, candidate = pair
    a, b = np.asarray(reference.image), np.asarray(candidate.image)
    return {
        "prompt": reference.prompt,
        "seed": reference.seed,
        "psnr_db": psnr_db(a, b),
        "ssim": ssim(a, b),
        "relative_l2": steps["relative_l2"].iloc[-1],
        "first_step_outside": first_step_outside(steps, limit),
        "identical": reference.sha256 == candidate.sha256,
    }


def _named(precision: str, reference: Generation, steps: pd.DataFrame) -> pd.DataFrame:
    names = {"precision": precision, "prompt": reference.prompt, "seed": reference.seed}
    return steps.assign(**names)[[*names, *steps.columns]]


def _other_precision(reference: GenerationSet, candidate: GenerationSet) -> bool:
    a, b = reference.spec.launch, candidate.spec.launch
    return (a.recipe, a.stored, a.quantization) != (b.recipe, b.stored, b.quantization)


def _warn_of_identical(
    reference: GenerationSet, candidate: GenerationSet, identical: pd.Series
) -> None:
    if reference.key == candidate.key:
        warnings.warn(
            f"{reference.key} is compared with itself, which measures nothing; "
            "for the noise floor generate it again with repeat=1",
            stacklevel=3,
        )
    elif identical.any() and _other_precision(reference, candidate):
        warnings.warn(
            f"{candidate.precision} gave the very pixels of {reference.precision} in "
            f"{identical.sum()} of {len(identical)} pairs; "
            "look at candidate.audit before believing that it ran",
            stacklevel=3,
        )
