"""Reference against candidate, pair by pair."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from workbench.eval import guard
from workbench.eval.clip_views import ClipViews
from workbench.eval.floor import AgainstFloor, NoiseFloor, against_floor
from workbench.eval.floor_guard import refuse_foreign_floor
from workbench.eval.frames import frame_table, media_pairs
from workbench.eval.gate import Gate, gate
from workbench.eval.labels import label
from workbench.eval.metrics import DEFAULT, score_pairs
from workbench.eval.population import paired_effect, summarised
from workbench.eval.trajectory import divergence, envelope, first_not_finite, first_step_outside
from workbench.records import Generation, GenerationSet

IDENTICAL = "identical to the reference: precision not applied?"
LATENTS = ("relative_l2", "cosine")  # of the final latents, in every table


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(ClipViews):
    """What a change of precision did to each picture. Made by :func:`compare`."""

    reference: GenerationSet
    candidate: GenerationSet
    floor: Comparison | None = None
    """The reference against itself, under the candidate's conditions; None if not measured."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Metrics that were not computed, and why: too small, weights not available."""
    notes: tuple[str, ...] = ()
    """What was done to pictures and clips before they were compared."""
    pairs: tuple[guard.Pair, ...] = field(repr=False)
    """(reference, candidate) of each row of :meth:`table`."""
    _table: pd.DataFrame = field(repr=False)
    _steps: pd.DataFrame = field(repr=False)
    _frames: tuple[pd.DataFrame, ...] = field(repr=False)

    def __str__(self) -> str:
        reference, candidate = self._labels
        row = self.summary().loc["relative_l2"]
        many = row["finite"] > 1  # one pair has no interval
        between = f" ({row['low']:.3g} to {row['high']:.3g})" if many else ""
        counted = f"{row['n']:.0f} pair{'s' if row['n'] > 1 else ''}"
        return (
            f"{candidate} against {reference}, {counted}: relative L2 of the last latents "
            f"{row['median']:.3g}{between}; {self.against_floor}"
        )

    @property
    def flag(self) -> str:
        """What makes the candidate suspect: pixels equal to those of another precision; or ""."""
        if self._table["identical"].any() and _other_precision(self.reference, self.candidate):
            return IDENTICAL
        return ""

    @property
    def against_floor(self) -> AgainstFloor:
        """``inside the floor``, ``above``, ``identical``, ``no floor measured``, ``not finite``."""
        return against_floor(self.summary(), self.floor)

    def table(self) -> pd.DataFrame:
        """One row a pair, worst PSNR first.

        Returns:
            prompt, seed; a column for each metric of ``compare`` (PSNR is infinite when identical;
            of videos the mean over the frames, and :meth:`frames` has each), beside flicker
            temporal_flickering, VBench's number of the candidate, and the same of the reference;
            relative_l2 and cosine of the final latents; first_step_outside (the floor; missing when
            never, or without a floor); first_not_finite (step of the candidate; missing when none
            is); identical (all frames).
        """
        return self._table.copy()

    def steps(self) -> pd.DataFrame:
        """One row a pair and denoising step.

        Returns:
            precision, prompt, seed, and the columns of :func:`divergence`: step, timestep,
            relative_l2, cosine, signal_to_error_db, share_of_final.
        """
        return self._steps.copy()

    def summary(self) -> pd.DataFrame:
        """Each metric over all pairs.

        Returns:
            Index: the metrics; columns n, identical (pairs with equal pixels), finite and infinite
            (pairs with such a value: PSNR of identical pictures, the motion of a clip that stands
            still), left_out (pairs without a value), mean (without infinite PSNR), min, q1, median,
            q3, max, low and high (95 % bootstrap interval of the median), which take infinite
            values as the least or the largest, floor (worst value of the floor; missing without
            one).
        """
        return summarised(self._table, self.floor and self.floor.table())

    def gate(self, *, quantile: float = 0.0, **limits: float) -> Gate:
        """Whether the pairs keep these limits, at most the given share of them excepted.

        >>> comparison.gate(psnr_db=30, ssim=0.95, quantile=0.1)  # doctest: +SKIP

        Args:
            quantile: Share of the pairs that may fail each limit, from 0 to below 1.
            **limits: Metric -> the least value where higher is better, else the largest; of a
                metric that can be below identical, such as warping_error, the largest distance.

        Raises:
            ComparisonRefused: an unknown or missing metric, a quantile out of range, or a negative
                distance.
        """
        return gate(self._table, limits, quantile, self.missing)

    def against(self, other: Comparison, metric: str = "psnr_db") -> dict[str, float]:
        """This candidate less another one on the same pairs; see :func:`paired_effect`."""
        return paired_effect(self._table, other._table, metric)


def compare(
    reference: GenerationSet,
    candidate: GenerationSet,
    *,
    floor: Comparison | NoiseFloor | None = None,
    metrics: Sequence[str] | None = None,
    across: Collection[str] = (),
) -> Comparison:
    """Compare two sets of pictures or videos that differ in precision alone, by prompt and seed.

    Frames a second may differ, since no frame depends on them; players take the reference's.

    Args:
        reference: usually BF16.
        candidate: the same request at another precision, or a repeat of the reference: the floor.
        floor: :func:`workbench.noise_floor`, of which the part with the candidate's conditions is
            taken, or ``compare(reference, repeat)``; over other prompts and seeds too.
        metrics: keys of :func:`workbench.metric_table`; None takes the cheap ones that need no
            weights, of videos also flicker, and the others over time unless they take long
            (``missing`` says so then). Those of the latents are always there.
        across: conditions that may differ too: ``runtime``, ``attention_backend``,
            ``parallelism``, ... The distance is then theirs and the precision's together.

    Warns when pairs are missing from one set, when a set meets itself, and when two precisions gave
    identical pixels.

    Raises:
        ComparisonRefused: unequal sampling, layout, timesteps or initial noise; a failed audit; no
            pair in common; an unknown metric or condition; a floor of another model, sampling,
            first frames or conditions.
    """
    guard.refuse_unlike(reference, candidate, across)
    if isinstance(floor, NoiseFloor):
        floor = floor.belonging(candidate)
    refuse_foreign_floor(reference, floor, candidate)
    found = guard.pairs(reference, candidate)
    steps = [divergence(a.trajectory, b.trajectory) for a, b in found]
    wanted = DEFAULT if metrics is None else [name for name in metrics if name not in LATENTS]
    scores = list(score_pairs(media_pairs(found), wanted, prompts=[a.prompt for a, _ in found]))
    table = _table(found, steps, scores, None if floor is None else envelope(floor.steps()))
    _warn_of_identical(reference, candidate, table["identical"])
    return Comparison(
        reference=reference,
        candidate=candidate,
        floor=floor,
        missing={name: why for one in scores for name, why in one.missing.items()},
        notes=tuple(dict.fromkeys(note for one in scores for note in one.notes)),
        pairs=tuple(found[i] for i in table.index),
        _frames=tuple(frame_table(scores[i], same) for i, same in table["identical"].items()),
        _table=table.reset_index(drop=True),
        _steps=pd.concat(
            [_named(label(candidate), pair[0], of) for pair, of in zip(found, steps, strict=True)],
            ignore_index=True,
        ),
    )


def _table(
    pairs: list[guard.Pair], steps: list[pd.DataFrame], scores: list[Any], limit: pd.Series | None
) -> pd.DataFrame:
    rows = [
        {
            "prompt": reference.prompt,
            "seed": reference.seed,
            **scored.values,
            **{name: of[name].iloc[-1] for name in LATENTS},
            "first_step_outside": first_step_outside(of, limit),
            "first_not_finite": first_not_finite(candidate.trajectory),
            "identical": reference.sha256 == candidate.sha256,
        }
        for (reference, candidate), of, scored in zip(pairs, steps, scores, strict=True)
    ]
    table = pd.DataFrame(rows).astype({"first_step_outside": "Int64", "first_not_finite": "Int64"})
    worst = "psnr_db" if "psnr_db" in table else "relative_l2"
    return table.sort_values(worst, ascending=worst == "psnr_db", kind="stable")


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
