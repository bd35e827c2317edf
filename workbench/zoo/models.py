"""ModelRef -> folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from workbench.errors import ModelNotFound
from workbench.specs import ModelRef

EMBEDDED = Path(__file__).parent / "embedded"
SCHEME = "embedded:"
CARD = "card.json"
INDEX = "model_index.json"
_OMNI = (
    "AutoRound and ModelOpt quantize its thinker themselves, as any language model, and vLLM-Omni "
    "serves what they write; the workbench quantizes and measures diffusers pipelines"
)
ENDS_BYTES = 1 << 20  # of each file that count: tensor headers, and the last weights


def locate(model: ModelRef, *, download: bool = True) -> Path:
    """Folder of a model in diffusers layout; a hub id is downloaded, or found in the hub's cache.

    Args:
        model: What to find.
        download: Whether to ask the hub for what its cache here does not hold.

    Raises:
        ModelNotFound: no such embedded model, no pipeline in the folder, or an unreachable hub.
    """
    if model.source.startswith(SCHEME):
        return _embedded(model.source.removeprefix(SCHEME))
    folder = Path(model.source).expanduser()
    if folder.exists() or folder.is_absolute() or model.source.startswith("."):
        return _local(folder)
    return _hub(model, download)


def pin(model: ModelRef, *, download: bool = True) -> ModelRef:
    """The same reference with its revision filled in: hub commit, or a folder's fingerprint.

    Args:
        model: What to pin.
        download: As in :func:`locate`.
    """
    folder = locate(model, download=download)
    if folder.parent.name == "snapshots":  # hub cache: models--owner--name/snapshots/COMMIT
        return model.but(revision=folder.name)
    return model.but(revision=fingerprint(folder))


def fingerprint(folder: Path) -> str:
    """Identifies a pipeline without reading its weights: configs, tensor headers, sizes."""
    components = [name for name in json.loads((folder / INDEX).read_text()) if name[0] != "_"]
    files = [folder / INDEX, *(f for name in components for f in (folder / name).rglob("*"))]
    digest = hashlib.sha256()
    for file in sorted(f for f in files if f.suffix in {".json", ".safetensors"}):
        digest.update(f"{file.relative_to(folder)}:{file.stat().st_size}:".encode())
        with file.open("rb") as stream:
            digest.update(stream.read(ENDS_BYTES))
            stream.seek(max(0, file.stat().st_size - ENDS_BYTES))
            digest.update(stream.read())
    return f"content-{digest.hexdigest()[:16]}"


def default_sampling(folder: Path) -> dict[str, Any]:
    """Sampling fields that suit a model: those of its card, else its pipeline's own."""
    card = folder / CARD
    if card.is_file():
        return json.loads(card.read_text())["sampling"]
    from workbench.zoo.families import sampling_of

    return sampling_of(folder)


def has_random_weights(folder: Path) -> bool:
    """Whether the card says so: then speed and memory mean something, and pictures nothing."""
    card = folder / CARD
    return card.is_file() and json.loads(card.read_text()).get("weights") == "random"


def _embedded(name: str) -> Path:
    folder = EMBEDDED / name
    if not (folder / INDEX).is_file():
        names = ", ".join(f"{SCHEME}{f.parent.name}" for f in sorted(EMBEDDED.glob(f"*/{INDEX}")))
        raise ModelNotFound(f"{SCHEME}{name} is not an embedded model; there are {names or 'none'}")
    return folder


def _local(folder: Path) -> Path:
    if not folder.is_dir():
        raise ModelNotFound(
            f"{folder} is not a folder; give a diffusers folder, a hub id, or embedded:NAME"
        )
    if not (folder / INDEX).is_file():
        raise ModelNotFound(
            f"{folder} holds no {INDEX}, so it is no diffusers pipeline; {_advice(folder)}"
        )
    return folder.resolve()


def _advice(folder: Path) -> str:
    config = folder / "config.json"
    kind = json.loads(config.read_text()).get("model_type", "") if config.is_file() else ""
    return f"it is a {kind}: {_OMNI}" if "omni" in kind else "save one with save_pretrained(folder)"


def _hub(model: ModelRef, download: bool) -> Path:
    from huggingface_hub import hf_hub_download, snapshot_download
    from huggingface_hub.errors import HFValidationError, RemoteEntryNotFoundError

    try:
        if download:  # a small file, before gigabytes that could not be used
            hf_hub_download(model.source, INDEX, revision=model.revision)
        return Path(
            snapshot_download(
                model.source,
                revision=model.revision,
                allow_patterns=HUB_FILES,
                local_files_only=not download,
            )
        )
    except RemoteEntryNotFoundError:
        raise ModelNotFound(
            f"{model.source!r} on the hub holds no {INDEX}, so it is no diffusers pipeline; "
            f"if it is an omni model, {_OMNI}"
        ) from None
    except HFValidationError:
        raise ModelNotFound(
            f"{model.source!r} is no folder here and no hub id; give an existing diffusers folder, "
            "OWNER/NAME, or embedded:NAME"
        ) from None
    except Exception as error:  # the hub's client has no common base for offline, denied and absent
        raise ModelNotFound(
            f"{model.source!r} is no folder here and could not be had from the hub "
            f"({type(error).__name__}); check the spelling and the network, "
            "or give a local diffusers folder"
        ) from error


HUB_FILES = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
