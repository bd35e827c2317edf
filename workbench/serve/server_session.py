"""A running ``vllm serve --omni``: started, proved, asked over HTTP, ended."""

from __future__ import annotations

import logging
import os
import secrets
import time
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from workbench import store
from workbench.audits import Audit
from workbench.errors import LaunchFailed
from workbench.provenance import gpu_bytes_used
from workbench.serve import server_door
from workbench.serve.guards import check_launch
from workbench.serve.proved_audit import proved_audit
from workbench.serve.server_flags import check_flags, command
from workbench.serve.server_process import ServerProcess, check_timeout, free_port
from workbench.specs import LaunchSpec, Sampling
from workbench.zoo.families import family_of

logger = logging.getLogger(__name__)
REQUEST_TIMEOUT_S = 3600.0
SYNC_TIMEOUT = "VLLM_OMNI_VIDEO_SYNC_TIMEOUT"
"""Seconds until the route of videos gives up, 600 unless told:
vllm_omni/entrypoints/openai/video/generation/helpers.py:100."""
_OF_AN_ENGINE = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""vllm_omni/diffusion/worker/diffusion_worker.py:323 leaves these in the process of an engine."""
_SHOWN = 500  # characters of a refusal


class ServerSession(AbstractContextManager):
    """What :class:`workbench.serve.server.Server` draws with."""

    def __init__(
        self, spec: LaunchSpec, folder: Path, *, port: int | None, start_timeout_s: float
    ) -> None:
        check_flags(spec.extra_flags)
        check_timeout(start_timeout_s)
        self.spec, self.folder, self.family = spec, folder, family_of(folder)
        check_launch(spec, self.family, folder)
        self.device_used_before = gpu_bytes_used()
        self.drawn: set[Sampling] = set()
        self.port = free_port(port)
        self.command = command(spec, folder, self.port, start_timeout_s)
        self.token = secrets.token_urlsafe()
        """What opens the server, as ``Authorization: Bearer TOKEN``; new with each one."""
        began = time.perf_counter()
        self._process = ServerProcess(self.command, self.port, _log(spec), _environment(self.token))
        self._client = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=httpx.Timeout(REQUEST_TIMEOUT_S, connect=10.0, pool=None),
            limits=httpx.Limits(max_connections=None),
            trust_env=False,
        )
        try:
            self._process.wait_healthy(start_timeout_s)
            self.audit: Audit = proved_audit(spec, folder, self.family, self.call_workers)
        except BaseException:
            self.close()
            raise
        self.load_s = time.perf_counter() - began
        logger.info("%s at %s", self.audit, self.url)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server and its workers; again is harmless."""
        self._client.close()
        self._process.close()

    @property
    def url(self) -> str:
        """Such as ``http://127.0.0.1:40123``; its routes are vLLM-Omni's."""
        return self._process.url

    @property
    def pid(self) -> int:
        """Process id of ``vllm serve``."""
        return self._process.pid

    @property
    def log(self) -> Path:
        """File of everything that the server prints."""
        return self._process.log

    def release_memory(self) -> None:
        """Let the allocators go of what they keep of earlier requests."""
        self.call_workers("workbench_release")

    def call_workers(self, method: str, *arguments: Any) -> Any:
        """Run a method of the worker extension on every rank; the answer of rank 0."""
        response = self._post("/collective_rpc", json={"method": method, "args": arguments})
        if response.status_code != httpx.codes.OK:
            raise LaunchFailed(f"{method}: HTTP {response.status_code}: {response.text[:_SHOWN]}")
        result = response.json()["results"]
        while isinstance(result, list) and len(result) == 1:
            result = result[0]
        return result

    def _post(self, route: str, **body: Any) -> httpx.Response:
        """The answer, whatever its status.

        Raises:
            LaunchFailed: there is none: the server is closed, has died, or takes too long.
        """
        if self._client.is_closed:
            raise LaunchFailed("this server is closed; start it again with workbench.serve")
        try:
            return self._client.post(route, **body)
        except httpx.TransportError as error:
            if self._process.died():
                raise LaunchFailed(self._process.obituary(f"at {route}")) from error
            raise LaunchFailed(f"{self.url}{route} did not answer: {error!r}") from error


def _environment(token: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _OF_AN_ENGINE}
    return {
        **kept,
        "VLLM_SERVER_DEV_MODE": "1",  # opens /collective_rpc, which the door guards
        "VLLM_LOGGING_COLOR": "0",
        "VLLM_DISABLE_LOG_LOGO": "1",
        SYNC_TIMEOUT: f"{REQUEST_TIMEOUT_S:g}",
        server_door.TOKEN: token,
    }


def _log(spec: LaunchSpec) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    return store.log_file(f"serve-{spec.key}-{stamp}")
