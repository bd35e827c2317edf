"""One JSON that holds a whole comparison: what ran, on what, what it cost and what it bought."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from workbench import store
from workbench.eval.comparison import Comparison
from workbench.eval.floor import NoiseFloor
from workbench.eval.labels import labels
from workbench.eval.summary import summary
from workbench.records import GenerationSet


def run_card(
    reference: GenerationSet, comparisons: Iterable[Comparison], *, floor: Comparison | NoiseFloor
) -> Path:
    """Write the card of a comparison into ``cards`` of the run folder.

    Args:
        reference: The set that all others are measured against.
        comparisons: One a candidate, against ``reference``.
        floor: :func:`workbench.noise_floor`, or ``compare(reference, repeat)``.

    Returns:
        The file: ``summary`` (one record a precision, bytes and seconds), ``floor``
        (one record a condition), ``metrics`` (spread and interval by precision; null is no number,
        or infinite where ``infinite`` is above 0), ``runs`` (launch, kernels, every picture with
        its digest and time), ``pairs`` (scores) and ``provenance``.
    """
    compared = list(comparisons)
    table = summary(reference, compared, floor=floor)
    whole = floor if isinstance(floor, NoiseFloor) else _repeat_only(reference, floor)
    floors = list(whole.measured.values())
    names = labels(one.candidate for one in compared)
    sets = [reference, *(one.candidate for one in (*floors, *compared))]
    card = {
        "schema_version": 1,
        "request": reference.spec.model_dump(mode="json", exclude={"launch"}),
        "summary": _records(table),
        "speed_note": table.attrs["speed_note"],
        "floor": _records(whole.table()),
        "metrics": {
            name: _records(one.summary().reset_index())
            for name, one in zip(names, compared, strict=True)
        },
        "runs": [_run(one) for one in sets],
        "pairs": {name: _records(one.table()) for name, one in zip(names, compared, strict=True)},
        "provenance": reference.provenance,
    }
    folder = store.root() / "cards"
    store.make_folder(folder)
    file = folder / f"{reference.key}.json"
    store.write_json(file, card)
    return file


def _repeat_only(reference: GenerationSet, floor: Comparison) -> NoiseFloor:
    return NoiseFloor(reference=reference, measured={"repeat": floor})


def _run(one: GenerationSet) -> dict[str, Any]:
    return {
        "key": one.key,
        "launch": one.spec.launch.model_dump(mode="json"),
        "repeat": one.spec.repeat,
        "verdict": one.audit.verdict,
        "kernels": one.audit.kernels,
        "attention_backend": one.audit.attention_backend,
        "kept_in_16_bit": {layer.name: layer.reason for layer in one.audit.kept if layer.reason},
        "load_s": one.load_s,
        "pictures": _records(one.table()),
    }


def _records(table: Any) -> list[dict[str, Any]]:
    """Plain JSON values; infinite becomes null, as JSON has no such number."""
    return json.loads(table.to_json(orient="records"))
