"""Runs inside the server: only who holds its token may ask it for anything but its state.

On a shared machine anyone reaches the loopback address, and so does a page in a browser there,
since vLLM allows every origin. What the routes of vLLM-Omni 0.30.0 take from whoever may ask:

- ``frame_interpolation_model_path`` of a video: a pickle of that folder is loaded, which runs its
  code (diffusion/postprocess/rife_interpolator.py:273), or a repository of the hub is fetched.
- ``lora`` of pictures, chat, videos and their WebSocket: any folder of the server's owner is read,
  a name that is no folder is fetched from the hub (vllm/lora/utils.py:358), and the adapter's
  layers take the place of those that the audit saw. Its pickles are read with ``weights_only``.
- ``url`` of ``/v1/images/edits`` and ``image_reference``: the server asks any host that it reaches
  (images/helpers.py:206, video_api_utils.py:240), with the answer's status in its own.
- ``video_url`` and ``audio_url`` of a chat, ``extra_params`` everywhere: passed to the pipeline
  unchecked; some pipelines open them as files (diffusion/models/cosmos3/transfer.py:538).
- ``/v1/omni/sleep`` and ``/collective_rpc`` stop or change the model; the latter, of vLLM's
  development mode, is how the audit is read.
"""

from __future__ import annotations

import hmac
import json
import os
from typing import Any

TOKEN = "WORKBENCH_SERVER_TOKEN"
"""Environment variable of the server: the secret that opens it."""
PUBLIC = ("/health", "/version", "/metrics", "/v1/models")
"""Paths that anyone may read."""
_READING = ("GET", "HEAD")
_UNAUTHORIZED, _POLICY_VIOLATION = 401, 1008
_REFUSAL = {
    "error": {
        "message": "send the header 'Authorization: Bearer TOKEN'; workbench.serve, which started "
        "this server, has the token as server.token",
        "type": "AuthenticationError",
        "code": _UNAUTHORIZED,
    }
}


class Door:
    """ASGI middleware for ``vllm serve --middleware``."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self._token = os.environ[TOKEN].encode()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Pass on what is public or carries the token, and refuse the rest: 401, or a close."""
        if scope["type"] == "lifespan" or _public(scope) or self._opens(scope):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        else:
            await _refuse(send)

    def _opens(self, scope: dict[str, Any]) -> bool:
        given = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, token = given.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)


def _public(scope: dict[str, Any]) -> bool:
    return scope.get("method") in _READING and scope["path"] in PUBLIC


async def _refuse(send: Any) -> None:
    headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": _UNAUTHORIZED, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(_REFUSAL).encode()})
