"""The base of everything that is asked for: frozen values, whose key names a folder."""

from __future__ import annotations

import hashlib
import json
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_serializer

from workbench.errors import SpecError

_SAID = {"tuple_type": "Input should be a list; a single one goes in brackets"}
"""pydantic's type of an error -> what to say of it instead."""
PIXELS_PER_TOKEN = 16  # 8x VAE times a 2x2 patch, in every family that we support


class Spec(BaseModel):
    """A frozen request; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    younger: ClassVar[frozenset[str]] = frozenset()
    """Fields that came after the first keys; left out of the JSON at their default, so that keys of
    before hold."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise SpecError(_describe(type(self), error)) from None

    @property
    def key(self) -> str:
        """First 12 hex digits of the SHA-256 over the canonical JSON of this spec."""
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(f"{type(self).__name__}:{content}".encode()).hexdigest()[:12]

    @model_serializer(mode="wrap")
    def _without_unused(self, handler: Any) -> dict[str, Any]:
        dumped = handler(self)
        for name in self.younger:
            if getattr(self, name) == type(self).model_fields[name].default:
                dumped.pop(name, None)
        return dumped

    def but(self, **changes: Any) -> Any:
        """This spec with some fields changed, validated again."""
        return type(self)(
            **{**{name: getattr(self, name) for name in type(self).model_fields}, **changes}
        )


def _describe(spec: type[BaseModel], error: ValidationError) -> str:
    lines = []
    found = error.errors()
    # What was dropped as wrong is not also too few.
    for item in [one for one in found if one["type"] != "too_short"] or found:
        field = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            lines.append(
                f"{spec.__name__} has no field {field!r}; it has {', '.join(spec.model_fields)}."
            )
        else:
            shown = f"{field}={item['input']!r}" if field else ""
            said = _SAID.get(item["type"], item["msg"].removeprefix("Value error, "))
            lines.append(f"{spec.__name__}({shown}): {said}")
    return "\n".join(lines)
