"""Progress bars that an interrupt does not leave locked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tqdm.auto import tqdm


@contextmanager
def interruptible_progress() -> Iterator[None]:
    """Let go of tqdm's lock when the block is left by an exception.

    All bars of a process share it. An interrupt that arrives while a bar is drawn can leave it
    held, and the engine's thread, which draws bars of its own, would wait for it forever.
    """
    try:
        yield
    except BaseException:
        for lock in getattr(tqdm.get_lock(), "locks", []):
            with suppress(RuntimeError, AssertionError):  # not, or no longer, held by this thread
                while True:
                    lock.release()
        raise
