"""ModelRef -> folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workbench.errors import ModelNotFound, SpecError
from workbench.specs import ModelRef, Sampling
from workbench.zoo.hub import CARD, INDEX, OMNI, outline, whole
from workbench.zoo.json_files import AGAIN, object_of, read_json

EMBEDDED = Path(__file__).parent / "embedded"
SCHEME = "embedded:"
ENDS_BYTES = 1 << 20  # of each file that count: tensor headers, and the last weights


def locate(model: ModelRef, *, download: bool = True) -> Path:
    """Folder of a model in diffusers layout; a hub id is downloaded, or found in the hub's cache.

    Args:
        model: What to find.
        download: Whether to ask the hub for what its cache here does not hold.

    Raises:
        ModelNotFound: no such embedded model, no pipeline in the folder, or an unreachable hub.
    """
    here = _here(model)
    return whole(model, download=download) if here is None else here


@contextmanager
def outlined(model: ModelRef) -> Iterator[Path]:
    """A folder with the configs and the headers of a model; of a hub id no weights are downloaded.

    Args:
        model: What to find.

    Raises:
        ModelNotFound: as :func:`locate`.
    """
    here = _here(model)
    if here is not None:
        yield here
        return
    with outline(model) as folder:
        yield folder


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
    components = [name for name in read_json(folder / INDEX) if name and name[0] != "_"]
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
    """Sampling fields that suit a model: those of its card, else its pipeline's own.

    Raises:
        ModelNotFound: a card that is broken, or whose ``sampling`` none can be made of.
    """
    card = folder / CARD
    if card.is_file():
        return _sampling(card)
    from workbench.zoo.families import sampling_of

    return sampling_of(folder)


def has_random_weights(folder: Path) -> bool:
    """Whether the card says so: then speed and memory mean something, and pictures nothing."""
    card = folder / CARD
    return card.is_file() and read_json(card).get("weights") == "random"


def _sampling(card: Path) -> dict[str, Any]:
    sampling = object_of(card, read_json(card), "sampling")
    if sampling is None:
        raise ModelNotFound(f"{card} says no sampling; give it one, or remove the file")
    try:
        Sampling(**sampling)
    except SpecError as error:
        raise ModelNotFound(f"{card}: {error}; mend its sampling, or {AGAIN}") from None
    return sampling


def _here(model: ModelRef) -> Path | None:
    """Folder of an embedded or a local model; None for a hub id."""
    if model.source.startswith(SCHEME):
        return _embedded(model.source.removeprefix(SCHEME))
    folder = Path(model.source).expanduser()
    if folder.exists() or folder.is_absolute() or model.source.startswith("."):
        return _local(folder)
    return None


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
    kind = str(read_json(config).get("model_type", "")) if config.is_file() else ""
    return f"it is a {kind}: {OMNI}" if "omni" in kind else "save one with save_pretrained(folder)"
