"""Bytes as people read them."""

from __future__ import annotations

MIB, GIB = 2**20, 2**30


def memory_unit(largest_bytes: float) -> tuple[str, int]:
    """Name and bytes of the unit in which a column up to ``largest_bytes`` is shown."""
    return ("GiB", GIB) if largest_bytes >= GIB else ("MiB", MIB)
