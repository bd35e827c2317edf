"""Models of the Hugging Face hub: whole, or their headers alone."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from workbench.errors import ModelNotFound
from workbench.specs import ModelRef
from workbench.zoo.json_files import read_json

INDEX = "model_index.json"
CARD = "card.json"
OMNI = (
    "AutoRound and ModelOpt quantize its thinker themselves, as any language model, and vLLM-Omni "
    "serves what they write; the workbench quantizes and measures diffusers pipelines"
)
FILES = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
CONFIGS = [INDEX, CARD, "*/config.json", "*.safetensors.index*.json"]
_REQUESTS = 8  # at once


def whole(model: ModelRef, *, download: bool) -> Path:
    """Folder of a model in the hub's cache.

    Args:
        model: A hub id.
        download: Whether to ask the hub for what the cache does not hold.

    Raises:
        ModelNotFound: the hub cannot be reached, or has no such pipeline.
    """
    with _told(model):
        return _snapshot(model, FILES, download)  # of configs alone, as a plan leaves: incomplete


@contextmanager
def outline(model: ModelRef) -> Iterator[Path]:
    """Folder of a model as far as a plan reads it: configs, indices and headers of weights.

    Weight files that the hub's cache holds are linked. Of the others the header alone is asked for,
    by HTTP range, and stands in a sparse file of the whole one's length; the folder is gone
    afterwards. Without a network the cache has to hold everything.

    Args:
        model: A hub id.

    Raises:
        ModelNotFound: the hub cannot be reached, has no such pipeline, or a broken weight file.
    """
    with TemporaryDirectory(prefix="workbench-headers-") as place:
        with _told(model):
            snapshot = _snapshot(model, CONFIGS, download=True)
            weights = _weights(model, snapshot)
            lacking = [name for name in weights if not (snapshot / name).is_file()]
            folder = snapshot
            if lacking:
                folder = Path(place) / snapshot.parents[1].name.rpartition("--")[2]
                _link(snapshot, folder)
                with ThreadPoolExecutor(_REQUESTS) as pool:
                    list(pool.map(lambda name: _outline(model, snapshot, folder, name), lacking))
        yield folder


def _snapshot(model: ModelRef, patterns: list[str], download: bool) -> Path:
    from huggingface_hub import hf_hub_download, snapshot_download

    if download:  # a small file, before gigabytes that could not be used
        hf_hub_download(model.source, INDEX, revision=model.revision)
    return Path(
        snapshot_download(
            model.source,
            revision=model.revision,
            allow_patterns=patterns,
            local_files_only=not download,
        )
    )


def _weights(model: ModelRef, snapshot: Path) -> list[str]:
    """Weight files of the components that the index names; none without a network."""
    from huggingface_hub import HfApi

    index = read_json(snapshot / INDEX)
    try:
        files = HfApi().list_repo_files(model.source, revision=snapshot.name)
    except Exception:  # no common base, as below; the cache may hold what is needed
        if not any(snapshot.glob("*/*.safetensors")):
            raise
        return []
    parts = [name.split("/") for name in files if name.endswith(".safetensors")]
    return ["/".join(part) for part in parts if len(part) == 2 and part[0] in index]


def _link(snapshot: Path, folder: Path) -> None:
    """The cached files that a plan reads."""
    for file in snapshot.rglob("*"):
        if file.suffix in {".json", ".safetensors"} and file.is_file():
            target = folder / file.relative_to(snapshot)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(file.resolve())


def _outline(model: ModelRef, snapshot: Path, folder: Path, name: str) -> None:
    """A weight file without its weights."""
    from huggingface_hub import HfApi

    found = HfApi().parse_safetensors_file_metadata(model.source, name, revision=snapshot.name)
    header: dict[str, Any] = {
        tensor: {
            "dtype": facts.dtype,
            "shape": facts.shape,
            "data_offsets": list(facts.data_offsets),
        }
        for tensor, facts in found.tensors.items()
    }
    text = json.dumps(header).encode()
    end = max((facts.data_offsets[1] for facts in found.tensors.values()), default=0)
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        stream.truncate(8 + len(text) + end)


@contextmanager
def _told(model: ModelRef) -> Iterator[None]:
    """What the hub's client raises, in words."""
    from huggingface_hub.errors import (
        HFValidationError,
        RemoteEntryNotFoundError,
        SafetensorsParsingError,
    )

    try:
        yield
    except ModelNotFound:
        raise
    except RemoteEntryNotFoundError:
        raise ModelNotFound(
            f"{model.source!r} on the hub holds no {INDEX}, so it is no diffusers pipeline; "
            f"if it is an omni model, {OMNI}"
        ) from None
    except SafetensorsParsingError as error:
        raise ModelNotFound(
            f"{model.source!r} on the hub has a broken weight file ({error}); give another revision"
        ) from None
    except HFValidationError:
        raise ModelNotFound(
            f"{model.source!r} is no folder here and no hub id; give an existing diffusers folder, "
            "OWNER/NAME, or embedded:NAME"
        ) from None
    except Exception as error:  # the hub's client has no common base for offline, denied and absent
        raise ModelNotFound(
            f"{model.source!r} is no folder here and could not be had from the hub "
            f"({type(error).__name__}); check the spelling and the network, log in "
            "(hf auth login) if it is a gated model, or give a local diffusers folder"
        ) from error
