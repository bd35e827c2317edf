"""Which noise floor belongs to a comparison."""

from __future__ import annotations

from operator import eq
from typing import TYPE_CHECKING, Any

from workbench.errors import ComparisonRefused
from workbench.eval.guard import CONDITIONS, conditions, drawn, first_frames
from workbench.records import GenerationSet
from workbench.specs import LaunchSpec

if TYPE_CHECKING:
    from workbench.eval.comparison import Comparison

_FLOORS = "floor=noise_floor(reference), or floor=compare(reference, generate(..., repeat=1))"


def refuse_foreign_floor(
    reference: GenerationSet, floor: Comparison | None, candidate: GenerationSet | None = None
) -> None:
    """Refuse a noise floor that is not the reference against itself under these conditions.

    Other prompts, seeds and frames a second are no reason: a floor is of a model and of how it is
    run. None is no floor, and fine.

    Args:
        reference: What candidates are compared with.
        floor: A comparison of two sets.
        candidate: Whose conditions the floor must have; None takes any.

    Raises:
        ComparisonRefused: one set against itself; another model, precision, sampling or first
            frame than the reference's, or other conditions than the candidate's.
    """
    if floor is None:
        return
    first, second = floor.reference, floor.candidate
    if first.key == second.key:
        raise ComparisonRefused(
            f"the floor compares {first.key} with itself, which is zero whatever the engine does; "
            f"{_FLOORS}"
        )
    for one, like in ((first, reference), (second, candidate or second)):
        differs = [name for name, same in _of_floor(one, reference, like).items() if not same]
        if differs:
            raise ComparisonRefused(
                f"the floor's set {one.key} ({one.precision}) has another {' and '.join(differs)} "
                f"than the reference {reference.key} ({reference.precision}) under the conditions "
                f"of {like.key}; a floor compares the reference with itself, run as the candidate "
                f"was run: {_FLOORS}"
            )


def _of_floor(one: GenerationSet, reference: GenerationSet, like: GenerationSet) -> dict[str, bool]:
    mine, wanted = conditions(one), conditions(like)
    a, b = one.spec.launch, reference.spec.launch
    return {
        "model": a.model == b.model,
        "precision": _quantized(a) == _quantized(b),
        "sampling": drawn(one) == drawn(reference),
        "first frame": bool(one.spec.images) == bool(reference.spec.images)
        and eq(*first_frames(one, reference)),
        **{name: mine[name] == wanted[name] for name in CONDITIONS},
    }


def _quantized(launch: LaunchSpec) -> tuple[Any, ...]:
    """All of it: two recipes may have one label."""
    return launch.recipe, launch.stored, launch.quantization
