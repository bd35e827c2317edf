"""A plan of a hub id, against a hub on the loopback address: what is asked for, and what is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest
from sparse_pipelines import qwen_image

import workbench as wb

COMMIT, REPO = "0123456789abcdef0123456789abcdef01234567", "someone/qwen"
PLAN = f"""
import workbench as wb
found = wb.plan({REPO!r}, gpus=2, gpu_memory_gib=80)
print(*sorted(found.layout().memory.items()), sep="\\n")
print(found.notes)
"""


LOCATE = f"""
import workbench as wb
from workbench import zoo
try:
    print(zoo.locate(wb.ModelRef({REPO!r}), download=False))
except wb.errors.ModelNotFound as error:
    print(error)
"""


class Hub(ThreadingHTTPServer):
    """One repository: its list of files, their sizes, and ranges of them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.folder, self.sent, self.asked = folder, 0, []


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = urlsplit(self.path).path
        if path.startswith(f"/api/models/{REPO}"):
            listed = "/tree/" in path
            found = self._tree() if listed else {"id": REPO, "sha": COMMIT}
            self._send(200, json.dumps(found).encode(), {"Content-Type": "application/json"}, body)
            return
        name = path.removeprefix(f"/{REPO}/resolve/").partition("/")[2]
        file = self.server.folder / name
        if not file.is_file():
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"}, body)
            return
        self._file(file, name, body)

    def _tree(self) -> list[dict]:
        folder = self.server.folder
        return [
            {
                "type": "file",
                "path": str(file.relative_to(folder)),
                "oid": "0" * 40,
                "size": file.stat().st_size,
            }
            for file in _files(folder)
        ]

    def _file(self, file: Path, name: str, body: bool) -> None:
        size = file.stat().st_size
        about = {"ETag": f'"{name.replace("/", "-")}"', "X-Repo-Commit": COMMIT}
        wanted = self.headers.get("Range") if body else None
        if body:
            self.server.asked.append((name, wanted))
        start, _, end = (wanted or "bytes=0-").removeprefix("bytes=").partition("-")
        last = min(int(end or size), size - 1)
        with file.open("rb") as stream:
            stream.seek(int(start))
            content = stream.read(last - int(start) + 1) if body else b""
        if wanted:
            about["Content-Range"] = f"bytes {start}-{last}/{size}"
        self._send(206 if wanted else 200, content, about, body, None if body else size)

    def _send(self, code: int, content: bytes, about: dict, body: bool, size=None) -> None:
        self.send_response(code)
        for name, value in {**about, "Content-Length": str(size or len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)
            self.server.sent += len(content)

    def log_message(self, *_: object) -> None: ...


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    served = Hub(qwen_image(tmp_path / "served" / "qwen"))
    named = {part: ["diffusers", "Any"] for part in ("text_encoder", "transformer", "vae")}
    index = {"_class_name": "QwenImagePipeline", **named}
    (served.folder / "model_index.json").write_text(json.dumps(index))
    (served.folder / "vae" / "diffusion.bin").write_bytes(b"0" * 10**6)
    Thread(target=served.serve_forever, daemon=True).start()
    yield served
    served.shutdown()
    served.server_close()


def planned(hub: Hub, cache: Path, code: str = PLAN, **more: str) -> subprocess.CompletedProcess:
    where = {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}", "HF_HOME": str(cache)}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "NO_PROXY": "127.0.0.1", "HF_HUB_OFFLINE": "0", **where, **more},
        check=False,
    )


def test_configs_and_headers_are_all_that_is_asked_for(hub: Hub, tmp_path: Path) -> None:
    done = planned(hub, tmp_path / "cache")
    assert done.returncode == 0, done.stderr
    local = wb.plan(str(hub.folder), gpus=2, gpu_memory_gib=80).layout().memory
    assert done.stdout.splitlines()[:-1] == [str(one) for one in sorted(local.items())]
    weights = [(name, wanted) for name, wanted in hub.asked if name.endswith(".safetensors")]
    assert {name for name, _ in weights} == {
        f"{part}/model.safetensors" for part in ("text_encoder", "transformer", "vae")
    }
    assert all(wanted is not None for _, wanted in weights)
    assert not [name for name, _ in hub.asked if name.endswith(".bin")]
    held = sum(file.stat().st_size for file in _files(hub.folder))
    assert hub.sent < 400_000 < held / 1000
    assert not [f for f in (tmp_path / "cache").rglob("*") if f.name.endswith(".safetensors")]


def test_weights_in_the_cache_are_used(hub: Hub, tmp_path: Path) -> None:
    snapshot = tmp_path / "cache/hub/models--someone--qwen/snapshots" / COMMIT
    first = planned(hub, tmp_path / "cache")
    for part in ("text_encoder", "transformer", "vae"):
        (snapshot / part / "model.safetensors").symlink_to(hub.folder / part / "model.safetensors")
    hub.asked.clear()
    again = planned(hub, tmp_path / "cache")
    assert not [name for name, _ in hub.asked if name.endswith(".safetensors")]
    offline = planned(hub, tmp_path / "cache", HF_HUB_OFFLINE="1")
    assert first.stdout == again.stdout == offline.stdout != ""


def test_configs_alone_are_no_model_in_the_cache(hub: Hub, tmp_path: Path) -> None:
    planned(hub, tmp_path / "cache")
    done = planned(hub, tmp_path / "cache", LOCATE)
    assert "could not be had from the hub (IncompleteSnapshotError)" in done.stdout


def test_a_repository_without_a_pipeline_says_so(hub: Hub, tmp_path: Path) -> None:
    (hub.folder / "model_index.json").unlink()
    done = planned(hub, tmp_path / "cache")
    assert "'someone/qwen' on the hub holds no model_index.json" in done.stderr
    assert not [name for name, _ in hub.asked if name.endswith(".safetensors")]
