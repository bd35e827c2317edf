"""A script of its own: runs a command, and sees to it that nothing of it outlives who asked.

``python supervisor.py HEIRS PARENT_PID COMMAND...`` ends with the command's exit code (128 + n for
signal n). It ends the command and all that it started, when the command ends, when it is told to
(SIGTERM), and when its parent is gone, however that died.

With HEIRS 1 another of it runs the command; with 0 it does so itself, prints its own pid and that
of the command, and keeps that stream open as long as it lives. Each ends what is left when the
other is killed: the inner one since the kernel tells it, the outer one since what the inner leaves
becomes its child. Only if both are killed at once can a process stay, one that left the session of
the command. Linux; imports nothing of the workbench, so that it starts at once and stays small.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time

import psutil

POLL_S = 0.1
GRACE_S = 5.0  # from SIGTERM to SIGKILL
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h


def main(heirs: int, parent: int, command: list[str]) -> int:
    """Run a command until it ends or its parent does; its exit code."""
    told = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: told.append(number))
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)  # workers whose own parent died become our children
    child = subprocess.Popen(
        _heir(heirs - 1, command) if heirs else command,
        stdin=subprocess.DEVNULL,
        stdout=None if heirs else sys.stderr,
        stderr=sys.stderr,
        preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
        start_new_session=bool(heirs),  # a signal to our group does not reach the heir
    )
    if not heirs:
        print(os.getpid(), child.pid, flush=True)
    else:
        sys.stdout.close()
    while child.poll() is None and not told and os.getppid() == parent:
        time.sleep(POLL_S)
    code = _end(child, within_s=GRACE_S * (1 + 2 * heirs))
    _kill_the_rest()
    return code if code >= 0 else 128 - code


def _heir(heirs: int, command: list[str]) -> list[str]:
    return [sys.executable, "-P", __file__, str(heirs), str(os.getpid()), *command]


def _end(child: subprocess.Popen[bytes], *, within_s: float) -> int:
    """Asked first, so that a server can end its own workers, and an heir the server."""
    if child.poll() is None:
        child.terminate()
    try:
        return child.wait(within_s)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


def _kill_the_rest() -> None:
    while left := psutil.Process().children(recursive=True):
        for process in left:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(left, timeout=GRACE_S)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
