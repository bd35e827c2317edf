"""spec -> folder. The only code that knows where artefacts lie.

A folder is complete when it holds ``manifest.json``, which is written last by an atomic rename.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

from workbench.errors import StoreError
from workbench.provenance import differing_versions, provenance
from workbench.spec import Spec

MANIFEST = "manifest.json"
SCHEMA_VERSION = 1


def root() -> Path:
    """The run folder: ``WORKBENCH_RUNS``, or ``runs`` in the working directory."""
    return Path(os.environ.get("WORKBENCH_RUNS") or "runs").absolute()


def path(kind: str, spec: Spec) -> Path:
    """Where the artefact of a spec lies or will lie, e.g. ``runs/generations/3f2a90c1d4e5``."""
    return root() / kind / spec.key


def has(kind: str, spec: Spec) -> bool:
    """Whether the artefact is there and complete."""
    return (path(kind, spec) / MANIFEST).is_file()


def read(folder: Path) -> dict[str, Any]:
    """The manifest of a complete artefact.

    Raises:
        StoreError: no manifest, or an unreadable one.
    """
    file = folder / MANIFEST
    try:
        return json.loads(file.read_text())
    except FileNotFoundError:
        raise StoreError(
            f"{folder} holds no {MANIFEST}: the run that made it did not finish; run it again"
        ) from None
    except ValueError as error:
        raise StoreError(
            f"{file} is not readable ({error}); delete {folder} and run it again"
        ) from None


def open_complete(kind: str, spec: Spec) -> Path:
    """Folder of a complete artefact; warns when other versions made it."""
    folder = path(kind, spec)
    differing = differing_versions(read(folder)["provenance"])
    if differing:
        changes = ", ".join(f"{name} {then} (now {now})" for name, (then, now) in differing.items())
        warnings.warn(f"{folder} was made by {changes}; force=True makes it again", stacklevel=3)
    return folder


def prepare(kind: str, spec: Spec, *, needed_bytes: int = 0, force: bool = False) -> Path:
    """The folder to work in, proved writable before any long work.

    Raises:
        StoreError: read-only, or less free space than ``needed_bytes``.
    """
    folder = path(kind, spec)
    if force and folder.exists():
        shutil.rmtree(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0" * 4096)
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        raise StoreError(
            f"cannot write to the run folder {folder} ({error.strerror}); "
            "set WORKBENCH_RUNS to a folder that can be written"
        ) from None
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise StoreError(
            f"{folder} has {free / 1e9:.2f} GB free and "
            f"about {needed_bytes / 1e9:.2f} GB are needed; "
            "free some space or set WORKBENCH_RUNS to another disk"
        )
    return folder


def commit(folder: Path, spec: Spec, content: dict[str, Any]) -> None:
    """Declare an artefact complete: its spec, content and provenance, written atomically."""
    write_json(
        folder / MANIFEST,
        {
            "schema_version": SCHEMA_VERSION,
            "spec_type": type(spec).__name__,
            "spec": spec.model_dump(mode="json"),
            **content,
            "provenance": provenance(),
        },
    )


def write_json(file: Path, value: Any) -> None:
    """Write JSON under a temporary name, then rename."""
    write_bytes(file, json.dumps(value, indent=1, ensure_ascii=False).encode())


def write_bytes(file: Path, content: bytes) -> None:
    """Write a file under a temporary name, then rename: it is whole or absent.

    Raises:
        StoreError: the disk is full or the folder read-only.
    """
    partial = file.with_name(f".{file.name}.partial")
    try:
        with partial.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise StoreError(
            f"cannot write {file} ({error.strerror}); what was finished before is kept, "
            "free some space or set WORKBENCH_RUNS, then run the same call again"
        ) from None


def make_folder(folder: Path) -> None:
    """Create a folder inside an artefact.

    Raises:
        StoreError: the disk is full or the folder read-only.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot create {folder} ({error.strerror}); free some space or set WORKBENCH_RUNS"
        ) from None


def log_file(name: str) -> Path:
    """Where a process that we start may write what it says; its folder is made.

    Raises:
        StoreError: the disk is full or the folder read-only.
    """
    folder = root() / "logs"
    make_folder(folder)
    return folder / f"{name}.log"


def find(key: str) -> Path:
    """The complete artefact whose key starts with ``key``.

    Raises:
        StoreError: none, or more than one.
    """
    found = [manifest.parent for manifest in root().glob(f"*/{key}*/{MANIFEST}")]
    if len(found) != 1:
        names = ", ".join(sorted(f"{f.parent.name}/{f.name}" for f in found)) or "nothing"
        raise StoreError(
            f"key {key!r} matches {names} in {root()}; "
            "give more of it, or the key of a finished run"
        )
    return found[0]
