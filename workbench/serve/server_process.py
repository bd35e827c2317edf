"""A server as a process of its own: started, waited for, found dead, ended with all its workers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from workbench.errors import LaunchFailed, SpecError
from workbench.serve import supervisor

LOOPBACK = "127.0.0.1"
POLL_S = 0.2
DEATH_S = 5.0  # from a connection that broke to an exit code
CLOSING_S = 2 * supervisor.GRACE_S + 5
TAIL_LINES, TAIL_BYTES = 25, 20_000


def free_port(asked: int | None = None) -> int:
    """A port of the loopback address that nobody listens on: the one asked for, or any.

    Raises:
        SpecError: the port that was asked for is taken, or is no port.
    """
    if asked is not None and not 0 < asked < 2**16:
        raise SpecError(f"port={asked}: a port is a number from 1 to 65535; None takes a free one")
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


class ServerProcess:
    """A command that answers on a port of the loopback address, in a process group of its own.

    Between it and us stands :mod:`workbench.serve.supervisor`, so that nothing of it is left when
    this process dies, and its exit code is known when it does.
    """

    def __init__(
        self, command: Sequence[str], port: int, log: Path, environment: Mapping[str, str]
    ) -> None:
        self.command = tuple(command)
        self.log = log
        self.url = f"http://{LOOPBACK}:{port}"
        with log.open("wb") as stream:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-P", supervisor.__file__, str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stream,
                env=dict(environment),
                start_new_session=True,
            )
        with self._supervisor.stdout as stream:
            self.pid = int(stream.readline() or 0)
        """Of the command; its process group is the supervisor's."""

    @property
    def exit_code(self) -> int | None:
        """None while it runs; 128 + n after signal n."""
        code = self._supervisor.poll()
        if code is None or code >= 0:
            return code
        self._kill_group()  # the supervisor itself was killed
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
            self._kill_group()
            self._supervisor.wait()

    def _kill_group(self) -> None:
        try:
            os.killpg(self._supervisor.pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def _log_end(self) -> str:
        with self.log.open("rb") as stream:
            stream.seek(max(0, self.log.stat().st_size - TAIL_BYTES))
            lines = stream.read().decode(errors="replace").splitlines()
        return f"The end of its log {self.log}:\n" + "\n".join(lines[-TAIL_LINES:])
