"""What vLLM writes to the terminal: warnings and errors, unless the environment says otherwise."""

from __future__ import annotations

import os


def quiet() -> None:
    """Before anything imports vLLM, which reads these once; ModelOpt imports it too."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
