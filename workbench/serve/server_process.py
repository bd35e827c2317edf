"""A server as a process of its own: started, waited for, found dead, ended with all its workers."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from numbers import Integral, Real
from pathlib import Path

import httpx

from workbench.errors import LaunchFailed, SpecError
from workbench.serve import supervisor

LOOPBACK = "127.0.0.1"
POLL_S = 0.2
START_TIMEOUT_S, LONGEST_START_S = 600.0, 86_400.0
DEATH_S = 5.0  # from a connection that broke to an exit code
CLOSING_S = 5 * supervisor.GRACE_S
TAIL_LINES, TAIL_BYTES = 25, 20_000


def free_port(asked: int | None = None) -> int:
    """A port of the loopback address that nobody listens on: the one asked for, or any.

    Raises:
        SpecError: the port that was asked for is taken, or is no port.
    """
    whole = isinstance(asked, Integral) and not isinstance(asked, bool)
    if asked is not None and not (whole and 0 < asked < 2**16):
        raise SpecError(
            f"port={asked!r}: a port is a whole number from 1 to 65535; None takes a free one"
        )
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
        try:
            probe.bind((LOOPBACK, asked or 0))
        except OSError as error:
            raise SpecError(
                f"port={asked} on {LOOPBACK} cannot be had ({error.strerror}); end what listens on "
                "it, give another, or leave port out for a free one"
            ) from None
        return probe.getsockname()[1]


def check_timeout(seconds: float) -> None:
    """Refuse a time within which no server starts, or that is none.

    Raises:
        SpecError: no number above 0, or more than a day.
    """
    number = isinstance(seconds, Real) and not isinstance(seconds, bool)
    if not (number and 0 < seconds <= LONGEST_START_S):  # nan is not either
        raise SpecError(
            f"start_timeout_s={seconds!r}: give a number of seconds above 0, up to "
            f"{LONGEST_START_S:g}, a day; leave it out for {START_TIMEOUT_S:g}"
        )


class ServerProcess:
    """A command that answers on a port of the loopback address, in a process group of its own.

    Between it and us stand two of :mod:`workbench.serve.supervisor`, so that nothing of it is left
    when this process or one of them dies, and its exit code is known when it does.
    """

    def __init__(
        self, command: Sequence[str], port: int, log: Path, environment: Mapping[str, str]
    ) -> None:
        self.command = tuple(command)
        self.log = log
        self.url = f"http://{LOOPBACK}:{port}"
        with log.open("wb") as stream:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-P", supervisor.__file__, "1", str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stream,
                env=dict(environment),
                start_new_session=True,
            )
        self._heirs_end = self._supervisor.stdout
        heir, pid = self._heirs_end.readline().split() or (0, 0)
        self._heir = int(heir)
        self.pid = int(pid)
        """Of the command."""

    @property
    def exit_code(self) -> int | None:
        """None while it runs; 128 + n after signal n."""
        code = self._supervisor.poll()
        if code is None or code >= 0:
            return code
        self._wait_for_heir()
        return 128 - code

    def wait_healthy(self, timeout_s: float) -> None:
        """Until ``/health`` says 200.

        Raises:
            LaunchFailed: it ended first, or took longer; with the end of its log.
        """
        until = time.monotonic() + timeout_s
        with httpx.Client(base_url=self.url, trust_env=False, timeout=5.0) as client:
            while time.monotonic() < until:
                if self.exit_code is not None:
                    raise LaunchFailed(self.obituary("before it answered"))
                try:
                    if client.get("/health").status_code == httpx.codes.OK:
                        return
                except httpx.TransportError:
                    pass
                time.sleep(POLL_S)
        raise LaunchFailed(
            f"{self.url}/health did not answer within start_timeout_s={timeout_s:g}; give it "
            f"longer if its log shows progress. {self._log_end()}"
        )

    def died(self) -> bool:
        """Whether it has ended; asked after a broken connection, so an ending is waited for."""
        until = time.monotonic() + DEATH_S
        while self.exit_code is None and time.monotonic() < until:
            time.sleep(POLL_S)
        return self.exit_code is not None

    def obituary(self, when: str) -> str:
        """One line on how it ended, and the end of its log."""
        code = self.exit_code
        names = {128 + one.value: f" ({one.name})" for one in signal.Signals}
        return f"vllm serve ended with exit code {code}{names.get(code, '')} {when}. " + (
            self._log_end()
        )

    def close(self) -> None:
        """End it and everything that it started; again is harmless."""
        if self._supervisor.poll() is None:
            self._supervisor.terminate()
        try:
            self._supervisor.wait(CLOSING_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()
        self._wait_for_heir()
        self._heirs_end.close()

    def _wait_for_heir(self) -> None:
        """Where the outer supervisor was killed, the inner one ends the rest, and then itself."""
        if self._heirs_end.closed or select.select([self._heirs_end], [], [], CLOSING_S)[0]:
            return
        with suppress(ProcessLookupError):  # it lived a moment ago, so the pid is its own
            os.killpg(self._heir, signal.SIGKILL)

    def _log_end(self) -> str:
        with self.log.open("rb") as stream:
            stream.seek(max(0, self.log.stat().st_size - TAIL_BYTES))
            lines = stream.read().decode(errors="replace").splitlines()
        return f"The end of its log {self.log}:\n" + "\n".join(lines[-TAIL_LINES:])
