"""Leaves the process as it was: a quantizer sets seeds, threads and environment at will."""

from __future__ import annotations

import gc
import logging
import os
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def isolated() -> Iterator[None]:
    """Restore torch's settings, the random states, warning filters and environment on leaving."""
    environment, state = dict(os.environ), (random.getstate(), np.random.get_state())  # noqa: NPY002  not ours
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    deterministic = torch.are_deterministic_algorithms_enabled()
    grad, gpus = torch.is_grad_enabled(), range(torch.cuda.device_count())
    gc.freeze()  # AutoRound collects after every layer; without this each one walks all of torch
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=gpus):
            yield
    finally:
        gc.unfreeze()
        gc.collect()
        torch.cuda.empty_cache()
        os.environ.clear()
        os.environ.update(environment)
        random.setstate(state[0])
        np.random.set_state(state[1])  # noqa: NPY002
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)
        torch.use_deterministic_algorithms(deterministic)
        torch.set_grad_enabled(grad)


@contextmanager
def forwarded(name: str, to: logging.Logger) -> Iterator[None]:
    """Send what a library logs to a logger of ours, at INFO at most unless it is an error.

    Args:
        name: The library's logger, which prints to the terminal by handlers of its own.
        to: Where records go, under the rules of Python's logging.
    """
    library = logging.getLogger(name)
    handlers, propagate = library.handlers, library.propagate
    library.handlers, library.propagate = [_Forward(to)], False
    try:
        yield
    finally:
        library.handlers, library.propagate = handlers, propagate


class _Forward(logging.Handler):
    def __init__(self, to: logging.Logger) -> None:
        super().__init__()
        self.to = to

    def emit(self, record: logging.LogRecord) -> None:
        level = record.levelno
        if level < logging.ERROR:
            level = min(level, logging.INFO)
        self.to.log(level, "%s", record.getMessage())
