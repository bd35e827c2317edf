"""What may be compared: two sets that differ in precision alone."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from workbench.errors import ComparisonRefused, WorkbenchError
from workbench.eval.trajectory import refuse_unaligned
from workbench.records import Generation, GenerationSet

Pair = tuple[Generation, Generation]
CONDITIONS = (
    "runtime",
    "attention_backend",
    "parallelism",
    "dtype",
    "step_execution",
    "max_num_seqs",
    "enforce_eager",
    "platform",
)
"""What moves latents without being a change of precision."""
MAY_DIFFER = ("model", *CONDITIONS)
"""What ``across`` may name."""


def conditions(one: GenerationSet) -> dict[str, Any]:
    """How a set was run, precision apart, by the names of CONDITIONS; attention as resolved."""
    launch = one.spec.launch
    resolved = {"attention_backend": one.audit.attention_backend, "platform": one.audit.platform}
    return {name: resolved.get(name, getattr(launch, name, None)) for name in CONDITIONS}


def refuse_unlike(
    reference: GenerationSet, candidate: GenerationSet, across: Collection[str] = ()
) -> None:
    """Refuse two sets that differ in sampling or layout, or that do not run what was asked.

    Frames a second may differ: no frame depends on them.

    Args:
        reference: One set.
        candidate: The other.
        across: What may differ: names of MAY_DIFFER.

    Raises:
        ComparisonRefused: names each differing field with both values; an unknown name in
            ``across``.
    """
    refuse_unknown(across, MAY_DIFFER)
    for role, one in (("reference", reference), ("candidate", candidate)):
        if one.audit.verdict == "not applied":
            raise ComparisonRefused(
                f"the {role} {one.key} asked for {one.audit.requested} and its audit says 'not "
                "applied'; "
                "look at .audit.kept, then generate it again at a precision that this machine runs"
            )
    a, b = _must_match(reference), _must_match(candidate)
    a["images"], b["images"] = first_frames(reference, candidate)
    if reference.spec.launch.stored is not None or candidate.spec.launch.stored is not None:
        _warn_of_another_folder(reference, candidate)
        a["model"] = b["model"] = None  # equal noise and timesteps are asked for in any case
    if differing := differences(a, b, across):
        names = [name for name in a if a[name] != b[name] and name not in across]
        raise ComparisonRefused(
            f"reference {reference.key} and candidate {candidate.key} differ in more than "
            f"precision: {differing}. Generate one of them again with the other's "
            + _listed(names)
            + _instead(reference, candidate, names, across)
        )


def _instead(
    reference: GenerationSet,
    candidate: GenerationSet,
    names: Sequence[str],
    across: Collection[str],
) -> str:
    """What else helps with just these differences, if anything does."""
    if set(names) <= set(MAY_DIFFER) and _aligned(reference, candidate):
        return f", or let that differ: across={(*across, *names)!r}"
    if "num_frames" not in names or {"height", "width"} & set(names):
        return ""
    return (
        ", since clips of unequal length begin with other noise. What their frames have in common "
        "can be scored, pair by pair: "
        "wb.score(reference[0].frames, candidate[0].frames, align='shorter')"
    )


def _aligned(reference: GenerationSet, candidate: GenerationSet) -> bool:
    """Whether the first pair can be followed: models and dtypes may round or draw other noise."""
    try:
        a, b = next(iter(_common(reference, candidate)))
        refuse_unaligned(a.trajectory, b.trajectory)
    except (WorkbenchError, StopIteration):
        return False
    return True


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def refuse_unknown(across: Collection[str], known: Collection[str]) -> None:
    """Refuse a condition that there is none of.

    Raises:
        ComparisonRefused: names it, and those that there are.
    """
    if unknown := set(across) - set(known):
        raise ComparisonRefused(
            f"across={sorted(unknown)} are no conditions; there are {', '.join(known)}"
        )


def differences(a: Mapping[str, Any], b: Mapping[str, Any], across: Collection[str]) -> str:
    """Each condition that is not the same, with both values, those of ``across`` left out."""
    return "; ".join(
        f"{name} is {a[name]!r} against {b[name]!r}"
        for name in a
        if a[name] != b[name] and name not in across
    )


def pairs(reference: GenerationSet, candidate: GenerationSet) -> list[Pair]:
    """The generations of both sets with the same prompt and seed, in the reference's order.

    Warns when some have no partner.

    Raises:
        ComparisonRefused: none has.
    """
    found = _common(reference, candidate)
    if not found:
        raise ComparisonRefused(
            f"no (prompt, seed) is in both sets: {_asked(reference)} against {_asked(candidate)}; "
            "generate both with the same prompts and seeds"
        )
    if len(found) < max(len(reference), len(candidate)):
        said = "1 pair is" if len(found) == 1 else f"{len(found)} pairs are"
        warnings.warn(
            f"only {said} in both sets, of {len(reference)} in the reference and {len(candidate)} "
            "in the candidate; the others are left out",
            stacklevel=3,
        )
    return found


def _common(reference: GenerationSet, candidate: GenerationSet) -> list[Pair]:
    partners = {(item.prompt, item.seed): item for item in candidate}
    return [
        (item, partners[item.prompt, item.seed])
        for item in reference
        if (item.prompt, item.seed) in partners
    ]


def drawn(one: GenerationSet) -> dict[str, Any]:
    """The sampling, of which no frame depends on the frames a second."""
    return {name: value for name, value in one.spec.sampling if name != "fps"}


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
    return {**drawn(one), "model": one.spec.launch.model, **conditions(one)}


def first_frames(*sets: GenerationSet) -> list[dict[str, str]]:
    """Of each set the digest of the image that each common prompt was given, if any."""
    given = [
        dict(zip(spec.prompts.prompts, spec.images, strict=True)) if spec.images else {}
        for spec in (one.spec for one in sets)
    ]
    common = set.intersection(*(set(one.spec.prompts.prompts) for one in sets))
    return [{p: image for p, image in of_one.items() if p in common} for of_one in given]


def _asked(one: GenerationSet) -> str:
    return f"{list(one.spec.prompts.prompts)} at seeds {list(one.spec.seeds)}"
