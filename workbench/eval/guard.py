"""What may be compared: two sets that differ in precision alone."""

from __future__ import annotations

import warnings
from typing import Any

from workbench.errors import ComparisonRefused
from workbench.records import Generation, GenerationSet

Pair = tuple[Generation, Generation]


def refuse_unlike(reference: GenerationSet, candidate: GenerationSet) -> None:
    """Refuse two sets that differ in sampling or layout, or that do not run what was asked.

    Raises:
        ComparisonRefused: names each differing field with both values.
    """
    for role, one in (("reference", reference), ("candidate", candidate)):
        if one.audit.verdict == "not applied":
            raise ComparisonRefused(
                f"the {role} {one.key} asked for {one.audit.requested} and its audit says 'not "
                "applied'; "
                "look at .audit.kept, then generate it again at a precision that this machine runs"
            )
    a, b = _must_match(reference), _must_match(candidate)
    if reference.spec.launch.stored is not None or candidate.spec.launch.stored is not None:
        _warn_of_another_folder(reference, candidate)
        a["model"] = b["model"] = None  # equal noise and timesteps are asked for in any case
    differing = [f"{name} is {a[name]!r} against {b[name]!r}" for name in a if a[name] != b[name]]
    if differing:
        raise ComparisonRefused(
            f"reference {reference.key} and candidate {candidate.key} differ in more than "
            "precision: "
            f"{'; '.join(differing)}. Generate one of them again with the other's values"
        )


def pairs(reference: GenerationSet, candidate: GenerationSet) -> list[Pair]:
    """The generations of both sets with the same prompt and seed, in the reference's order.

    Warns when some have no partner.

    Raises:
        ComparisonRefused: none has.
    """
    partners = {(item.prompt, item.seed): item for item in candidate}
    found = [
        (item, partners[item.prompt, item.seed])
        for item in reference
        if (item.prompt, item.seed) in partners
    ]
    if not found:
        raise ComparisonRefused(
            f"no (prompt, seed) is in both sets: {_asked(reference)} against {_asked(candidate)}; "
            "generate both with the same prompts and seeds"
        )
    if len(found) < max(len(reference), len(candidate)):
        warnings.warn(
            f"only {len(found)} pairs are in both sets, of {len(reference)} in the reference and "
            f"{len(candidate)} in the candidate; the others are left out",
            stacklevel=3,
        )
    return found


def refuse_foreign_floor(
    reference: GenerationSet, floor: tuple[GenerationSet, GenerationSet]
) -> None:
    """Refuse a noise floor that is not the reference's launch against its own repeat.

    Raises:
        ComparisonRefused: another launch or sampling.
    """
    for one in floor:
        differs = [
            name
            for name in ("launch", "sampling")
            if getattr(one.spec, name) != getattr(reference.spec, name)
        ]
        if differs:
            raise ComparisonRefused(
                f"the floor's set {one.key} ({one.precision}) has another {' and '.join(differs)} "
                "than the reference "
                f"{reference.key} ({reference.precision}); a floor compares the reference with its "
                "own repeat: "
                "floor=compare(reference, generate(..., repeat=1))"
            )


def _warn_of_another_folder(reference: GenerationSet, candidate: GenerationSet) -> None:
    """A folder that was quantized elsewhere is a model of its own: say so, and go on."""
    for one, other in ((reference, candidate), (candidate, reference)):
        launch, model = one.spec.launch, other.spec.launch.model
        if launch.stored is not None and launch.model != model:
            warnings.warn(
                f"{launch.model.source} is {launch.stored} as it lies; that it was made from "
                f"{model.source} is not recorded here",
                stacklevel=4,
            )
            return


def _must_match(one: GenerationSet) -> dict[str, Any]:
    launch = one.spec.launch
    names = ("model", "dtype", "parallelism", "step_execution", "max_num_seqs", "enforce_eager")
    return {
        **dict(one.spec.sampling),
        **{name: getattr(launch, name) for name in names},
        "attention_backend": one.audit.attention_backend,  # as resolved
        "platform": one.audit.platform,
    }


def _asked(one: GenerationSet) -> str:
    return f"{list(one.spec.prompts.prompts)} at seeds {list(one.spec.seeds)}"
