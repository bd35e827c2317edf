"""A script of its own: runs a command, and sees to it that nothing of it outlives who asked.

``python supervisor.py PARENT_PID COMMAND...`` prints the pid of the command and ends with its exit
code (128 + n for signal n). It ends the command and all that it started, when the command ends,
when it is told to (SIGTERM), and when its parent is gone, however that died. Linux; imports nothing
of the workbench, so that it starts at once and stays small.
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


def main(parent: int, command: list[str]) -> int:
    """Run a command until it ends or its parent does; its exit code."""
    told = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: told.append(number))
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)  # workers whose own parent died become our children
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        stderr=sys.stderr,
        preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
    )
    print(child.pid, flush=True)
    sys.stdout.close()
    while child.poll() is None and not told and os.getppid() == parent:
        time.sleep(POLL_S)
    code = _end(child)
    _kill_the_rest()
    return code if code >= 0 else 128 - code


def _end(child: subprocess.Popen[bytes]) -> int:
    """Asked first, so that a server can end its own workers."""
    if child.poll() is None:
        child.terminate()
    try:
        return child.wait(GRACE_S)
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
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
