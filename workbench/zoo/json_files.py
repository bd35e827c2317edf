"""JSON files of a model's folder: one reader, and every refusal names the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from workbench.errors import ModelNotFound

AGAIN = "download or save the model again"


def read_json(file: Path) -> dict[str, Any]:
    """The JSON object that a file holds.

    Raises:
        ModelNotFound: it cannot be read, is no JSON, or holds something else than an object.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelNotFound(f"{file} cannot be read ({error}); {AGAIN}") from None
    if not isinstance(content, dict):
        raise ModelNotFound(f"{file} holds {_shown(content)}, and no JSON object; {AGAIN}")
    return content


def object_of(file: Path, content: dict[str, Any], name: str) -> dict[str, Any] | None:
    """An entry that is an object itself; None where there is none.

    Raises:
        ModelNotFound: it is something else.
    """
    value = content.get(name)
    if value is not None and not isinstance(value, dict):
        raise ModelNotFound(f"{file}: {name}={_shown(value)} is no JSON object; {AGAIN}")
    return value


def count_of(file: Path, content: dict[str, Any], name: str) -> int | None:
    """An entry that counts something; None where there is none.

    Raises:
        ModelNotFound: it is no whole number of 1 or more.
    """
    value = content.get(name)
    if value is not None and not _counts(value):
        raise ModelNotFound(
            f"{file}: {name}={_shown(value)} is no whole number of 1 or more; {AGAIN}"
        )
    return value


def list_of(file: Path, content: dict[str, Any], name: str, kind: type) -> list[Any] | None:
    """An entry that lists counts, or truths; None where there is none, or nothing in it.

    Args:
        file: Where it stands.
        content: Of the file.
        name: Of the entry.
        kind: ``int`` or ``bool``.

    Raises:
        ModelNotFound: it is no list of those.
    """
    value = content.get(name)
    good = isinstance(value, list) and all(
        _counts(one) if kind is int else isinstance(one, kind) for one in value
    )
    if value is not None and not good:
        expected = "whole numbers of 1 or more" if kind is int else "true and false"
        raise ModelNotFound(f"{file}: {name}={_shown(value)} is no list of {expected}; {AGAIN}")
    return value or None


def _counts(value: Any) -> bool:
    return type(value) is int and value >= 1


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
