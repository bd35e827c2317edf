"""One table over all precisions: what each cost and what it bought."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from workbench.eval.comparison import Comparison, compare
from workbench.eval.floor import NoiseFloor
from workbench.eval.floor_guard import refuse_foreign_floor
from workbench.eval.labels import label, labels
from workbench.eval.ordering import OVER_TIME, median_psnr, time_note
from workbench.records import GenerationSet

COLUMNS = (
    "precision",
    "verdict",
    "kernel",
    "coverage",
    "flops_coverage",
    "latency_s",
    "latency_s_min",
    "latency_s_max",
    "speed_ratio",
    "peak_memory_bytes",
    "weight_bytes",
    "transformer_bytes",
    "checkpoint_bytes",
    "psnr_db",
    "psnr_db_low",
    "psnr_db_high",
    "psnr_db_min",
    "psnr_db_max",
    "ssim",
    "flip",
    "n",
    "identical",
    "against_floor",
    "flag",
)
EXCLUDED = "not applied: excluded"


def summary(
    reference: GenerationSet,
    candidates: Iterable[GenerationSet | Comparison],
    *,
    floor: Comparison | NoiseFloor,
) -> pd.DataFrame:
    """One row a precision: the reference, its repeat (the floor), then each candidate.

    Args:
        reference: the set that all others are measured against.
        candidates: sets, or comparisons of them against ``reference`` that are at hand already. A
            set whose audit says ``not applied`` keeps its row and has no figures.
        floor: :func:`workbench.noise_floor`, or ``compare(reference, repeat)``.

    Returns:
        One column each, bytes and seconds throughout:

        - precision; verdict of the audit; kernel (class names); coverage and flops_coverage (share
          of the linear parameters, and of their multiplications, that run quantized, 0 to 1);
        - latency_s (median; the first picture is left out as warm-up unless it is the only one),
          latency_s_min, latency_s_max; speed_ratio (the reference's latency over this one's);
        - peak_memory_bytes (highest, the first picture left out likewise); weight_bytes (loaded, on
          rank 0); transformer_bytes and checkpoint_bytes (on disk);
        - psnr_db (median, infinite where most pairs are identical), psnr_db_low and psnr_db_high
          (95 % bootstrap interval of it), psnr_db_min, psnr_db_max; ssim and flip (medians); of
          videos compared over time also flicker_error and jitter (medians of the pairs that they
          could be told of); n; identical;
        - against_floor: ``identical``, ``inside the floor`` (median relative L2 of the final
          latents at most the floor's largest), ``above``, or ``not finite``;
        - flag: :attr:`Comparison.flag`, or ``not applied: excluded``.

        ``attrs["speed_note"]`` says when times mean nothing, ``attrs["time_note"]`` of videos what
        PSNR does not say and which pairs flicker and jitter could not be told of,
        ``attrs["drawn"]`` what one item is: a picture or a video.

    Raises:
        ComparisonRefused: a candidate that :func:`compare` refuses, a floor without a repeat of
            the reference, or one of another model, precision, sampling or first frames.
    """
    repeat = floor.repeat if isinstance(floor, NoiseFloor) else floor
    refuse_foreign_floor(reference, repeat)
    compared = [
        one
        if isinstance(one, Comparison) or _not_applied(one)
        else compare(reference, one, floor=floor)
        for one in candidates
    ]
    baseline = _latency(reference)["latency_s"]
    rows = [{**_cost(reference, baseline), "against_floor": "reference", "flag": ""}]
    rows += [_row(one, baseline) for one in (repeat, *compared)]
    sets = [reference, *map(_candidate, (repeat, *compared))]
    table = (
        pd.DataFrame(rows)
        .assign(precision=labels(sets))
        .reindex(columns=_columns(rows))
        .astype({"n": "Int64", "identical": "Int64"})
    )
    run = [_candidate(one) for one in compared if isinstance(one, Comparison)]
    table.attrs["speed_note"] = _speed_note([reference, *run])
    every = [repeat, *(one for one in compared if isinstance(one, Comparison))]
    table.attrs["time_note"] = time_note(every)
    table.attrs["drawn"] = "video" if repeat.of_videos else "picture"
    return table


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    over_time = [name for name in OVER_TIME if any(name in row for row in rows)]
    after = COLUMNS.index("flip") + 1  # where any pair was compared over time
    return [*COLUMNS[:after], *over_time, *COLUMNS[after:]]


def _not_applied(one: GenerationSet | Comparison) -> bool:
    return isinstance(one, GenerationSet) and one.audit.verdict == "not applied"


def _candidate(one: GenerationSet | Comparison) -> GenerationSet:
    return one.candidate if isinstance(one, Comparison) else one


def _row(one: GenerationSet | Comparison, baseline: float) -> dict[str, Any]:
    """A candidate's figures; of a set that does not run what was asked for, none."""
    if isinstance(one, GenerationSet):
        return {"verdict": one.audit.verdict, "flag": EXCLUDED}
    return {
        **_cost(one.candidate, baseline),
        **_fidelity(one),
        "flag": one.flag,
    }


def _latency(one: GenerationSet) -> dict[str, float]:
    times = pd.Series([item.elapsed_s for item in one.items[1:] or one.items])
    return {"latency_s": times.median(), "latency_s_min": times.min(), "latency_s_max": times.max()}


def _cost(one: GenerationSet, baseline_s: float) -> dict[str, Any]:
    times, disk = _latency(one), one.checkpoint_bytes
    return {
        "verdict": one.audit.verdict,
        "kernel": ", ".join(one.audit.kernels)
        + (" (reference kernel)" if one.audit.reference_kernels else ""),
        "coverage": one.audit.coverage,
        "flops_coverage": one.audit.flops_coverage,
        **times,
        "speed_ratio": baseline_s / times["latency_s"],
        "peak_memory_bytes": max(item.peak_memory_bytes for item in one.items[1:] or one.items),
        "weight_bytes": sum(one.audit.weight_bytes.values()),
        "transformer_bytes": sum(
            size for name, size in disk.items() if name.startswith("transformer")
        ),
        "checkpoint_bytes": sum(disk.values()),
    }


def _fidelity(one: Comparison) -> dict[str, Any]:
    metrics = one.summary()
    psnr = metrics.reindex(["psnr_db"]).loc["psnr_db"]  # of no number where it was not asked for
    counts, medians = metrics.loc["relative_l2"], ("ssim", "flip", *OVER_TIME)
    spread = {f"psnr_db_{name}": psnr[name] for name in ("low", "high", "min", "max")}
    return {
        "psnr_db": median_psnr(one),
        **spread,
        **{name: metrics.loc[name, "median"] for name in medians if name in metrics.index},
        "n": counts["n"],
        "identical": counts["identical"],
        "against_floor": one.against_floor,
    }


def _speed_note(sets: list[GenerationSet]) -> str:
    reasons = [
        f"{label(one)} runs on reference kernels" for one in sets if one.audit.reference_kernels
    ]
    if any("cpu" in one.audit.platform.lower() for one in sets):
        reasons.append("this ran on a CPU")
    return f"Speed is not meaningful here: {'; '.join(reasons)}. Fidelity is." if reasons else ""
