"""Runs inside the server: only who started it may ask its workers.

The audit needs the route ``/collective_rpc``, which vLLM opens in its development mode along with
others that change or stop the model. On a shared machine anyone reaches the loopback address.
The routes of videos are closed as well: a form may name a model of frame interpolation, whose file
vLLM-Omni unpickles (vllm_omni/diffusion/postprocess/rife_interpolator.py:273), which runs its code.
"""

from __future__ import annotations

import hmac
import os
from typing import Any

TOKEN = "WORKBENCH_SERVER_TOKEN"
"""Environment variable of the server: the secret that opens what is not public."""
HEADER = b"x-workbench-token"
PUBLIC = ("/v1/", "/health", "/metrics", "/version", "/docs", "/openapi.json")
CLOSED = "/v1/videos"
_FORBIDDEN = 403


class Door:
    """ASGI middleware for ``vllm serve --middleware``."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self._token = os.environ[TOKEN].encode()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Pass on what is public or carries the token, and answer 403 to the rest."""
        if scope["type"] != "http" or self._opens(scope):
            await self.app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": _FORBIDDEN, "headers": []})
        await send({"type": "http.response.body", "body": b"for who started the server alone"})

    def _opens(self, scope: dict[str, Any]) -> bool:
        given = dict(scope["headers"]).get(HEADER, b"")
        path = scope["path"]
        public = path.startswith(PUBLIC) and not path.startswith(CLOSED)
        return public or hmac.compare_digest(given, self._token)
