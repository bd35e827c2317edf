"""What vLLM writes to the terminal: warnings and errors, unless the environment says otherwise."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_MARKS = ("write", "_original_write")


def quiet() -> None:
    """Before anything imports vLLM, which reads these once; ModelOpt imports it too."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")


@contextmanager
def plain_streams() -> Iterator[None]:
    """Undo what a worker inside this process does to its streams: a name before every line.

    vllm/utils/system_utils.py:_add_prefix replaces ``write`` of both streams for good, so that
    whatever the user prints afterwards would carry ``(DiffusionWorker pid=...)``.
    """
    streams = (sys.stdout, sys.stderr)
    before = [{name: vars(one)[name] for name in _MARKS if name in vars(one)} for one in streams]
    try:
        yield
    finally:
        for stream, kept in zip(streams, before, strict=True):
            for name in _MARKS:
                vars(stream).pop(name, None)
            vars(stream).update(kept)
