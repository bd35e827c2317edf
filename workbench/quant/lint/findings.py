"""One thing that is wrong, or worth knowing, about a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
ERROR, WARNING, NOTE = SEVERITIES


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, where, and what to do about it."""

    severity: Severity
    """``error``: it does not load, or computes something else; ``warning``: it may; ``note``."""
    rule: str
    """Short name of the check, e.g. ``shard-missing``."""
    file: str
    """Path below the linted folder."""
    tensor: str
    """Tensor or module, or empty."""
    message: str
