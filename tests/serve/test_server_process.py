"""Starting, waiting, dying and ending, with a small stand-in for the server."""

import os
import re
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from workbench.errors import LaunchFailed, SpecError
from workbench.serve.server_process import ServerProcess, check_timeout, free_port

STAND_IN = """
import http.server, subprocess, sys
print("about to listen", flush=True)
for apart in (False, True):
    subprocess.Popen(["sleep", "1000"], start_new_session=apart)
class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Healthy).serve_forever()
"""
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: None)
print("deaf", flush=True)
while True: time.sleep(1000)
"""
PARENT = """
import os, sys, time
from pathlib import Path
from workbench.serve.server_process import ServerProcess, free_port
port = free_port()
command = [sys.executable, "-c", sys.argv[1], str(port)]
server = ServerProcess(command, port, Path(sys.argv[2]), os.environ)
server.wait_healthy(30)
print(server.pid, flush=True)
time.sleep(1000)
"""


@pytest.fixture
def start(tmp_path):
    """Starts a script as a server; everything is ended afterwards."""
    started = []

    def of(script=STAND_IN):
        port = free_port()
        command = [sys.executable, "-c", script, str(port)]
        started.append(ServerProcess(command, port, tmp_path / "log", os.environ))
        return started[-1]

    yield of
    for one in started:
        one.close()


def family(server):
    """The two supervisors, the server, and all that it started, one of it in a session apart."""
    outer = psutil.Process(server.pid).parent().parent()
    return [outer, *outer.children(recursive=True)]


def gone(processes, within_s=60.0):
    return not psutil.wait_procs(processes, timeout=within_s)[1]


def test_closing_leaves_nothing_of_it(start):
    server = start()
    server.wait_healthy(30)
    processes = family(server)
    assert len(processes) == 5
    server.close()
    assert gone(processes)
    assert server.exit_code == 128 + signal.SIGTERM
    server.close()


def test_one_that_does_not_listen_to_sigterm_is_killed(start):
    server = start(DEAF)
    while "deaf" not in server.log.read_text():
        time.sleep(0.02)
    processes = family(server)
    server.close()
    assert gone(processes)
    assert server.exit_code == 128 + signal.SIGKILL


def test_one_that_ends_early_is_reported_with_its_code_and_the_end_of_its_log(start):
    with pytest.raises(LaunchFailed, match=r"(?s)exit code 3 before it answered.*last words"):
        start("print('last words'); raise SystemExit(3)").wait_healthy(30)


def test_one_that_does_not_answer_in_time_is_reported(start):
    with pytest.raises(LaunchFailed, match="within start_timeout_s=1;"):
        start("import time; time.sleep(1000)").wait_healthy(1)


def test_a_killed_server_is_known_by_its_signal_and_leaves_nothing(start):
    server = start()
    server.wait_healthy(30)
    processes = family(server)
    os.kill(server.pid, signal.SIGKILL)
    assert server.died()
    assert "exit code 137 (SIGKILL)" in server.obituary("now")
    assert "about to listen" in server.obituary("now")
    assert gone(processes)


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("supervisor", [0, 1], ids=["outer", "inner"])
def test_nothing_is_left_when_a_supervisor_is_killed(start, supervisor, asked):
    server = start()
    server.wait_healthy(30)
    processes = family(server)
    processes[supervisor].kill()
    if asked:
        assert server.died()
        assert server.exit_code == 137
    assert gone(processes)
    server.close()


def test_nothing_is_left_when_the_parent_is_killed(tmp_path):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, STAND_IN, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent, parent.stdout:
        pid = int(parent.stdout.readline())
        outer = psutil.Process(pid).parent().parent()
        processes = [outer, *outer.children(recursive=True)]
        assert len(processes) == 5
        parent.kill()
        assert gone(processes)


@pytest.mark.parametrize("port", [0, 2**16, -1, 8123.5, "8123", True, float("nan"), [8123]])
def test_what_is_no_port_is_refused(port):
    with pytest.raises(SpecError, match=f"port={re.escape(repr(port))}: .* from 1 to 65535; None"):
        free_port(port)


@pytest.mark.parametrize("seconds", [0, -1, 1e9, 10**30, "60", None, True, float("nan"), [60]])
def test_what_is_no_time_to_wait_is_refused(seconds):
    with pytest.raises(SpecError, match=r"start_timeout_s=.* above 0, up to 86400, a day"):
        check_timeout(seconds)


def test_a_taken_port_is_refused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SpecError, match="end what listens on it"):
            free_port(taken.getsockname()[1])


def test_a_free_port_is_given_as_asked():
    port = free_port()
    assert free_port(port) == free_port(np.int64(port)) == port
    check_timeout(np.float32(0.5))
