"""Resident memory of a worker since its launch, from the kernel; a CPU keeps no other books."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path

import psutil

CLEAR_REFS = Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # man 5 proc: resets VmHWM to the present resident size
# man 3 mallopt: names and numbers are glibc's. Freed blocks stay in the process and are used again,
# since mapping and clearing fresh pages for each feature map takes as long as the sums in it.
KEEP_FREED = {
    -3: 32 * 2**20,  # M_MMAP_THRESHOLD, its largest: only bigger blocks leave when they are freed
    -1: 2**31 - 1,  # M_TRIM_THRESHOLD
    -2: 64 * 2**20,  # M_TOP_PAD
}
_baseline = 0


def set_baseline() -> None:
    """Give free memory back to the system and take what is left as the zero of this launch.

    Without the trim a second launch would live in what the first one freed and look free of cost.
    """
    global _baseline
    for parameter, value in KEEP_FREED.items():
        _libc("mallopt", parameter, value)
    gc.collect()
    reset_peak()
    _baseline = resident_bytes()


def reset_peak() -> None:
    """Start a new peak; where the kernel does not permit it the peak is that of the process."""
    trim()
    try:
        CLEAR_REFS.write_text(RESET_PEAK)
    except OSError:
        return


def allocated_bytes() -> int:
    """Resident now, above the baseline."""
    return max(0, resident_bytes() - _baseline)


def peak_bytes() -> int:
    """Highest resident size since :func:`reset_peak`, above the baseline."""
    return max(0, high_water_mark() - _baseline)


def resident_bytes() -> int:
    """Resident size of this process now."""
    return psutil.Process().memory_info().rss


def high_water_mark() -> int:
    """Highest resident size of this process since :func:`reset_peak`."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resident_bytes()


def trim() -> None:
    """Return freed heap pages to the system, where the C library can."""
    _libc("malloc_trim", 0)


def _libc(function: str, *arguments: int) -> None:
    try:
        getattr(ctypes.CDLL("libc.so.6"), function)(*arguments)
    except (OSError, AttributeError):  # not glibc
        return
