"""What came out, as frozen values that load from their folder. No torch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import store
from workbench.audits import Audit
from workbench.checkpoints import Checkpoint, LayerError
from workbench.errors import SpecError, StoreError
from workbench.specs import GenerateSpec
from workbench.trajectories import Trajectory

if TYPE_CHECKING:
    import pandas as pd
    from PIL import Image

    from workbench.speed import Benchmark

VIDEO = "video.mp4"
INPUTS = "inputs"
"""Folder of the first frames of a set, beside its generations."""
__all__ = [
    "Checkpoint",
    "Generation",
    "GenerationSet",
    "LayerError",
    "Trajectory",
    "load",
]


@dataclass(frozen=True, kw_only=True)
class Generation:
    """One picture or video: what was asked, what came out, what it took."""

    folder: Path
    prompt: str
    seed: int
    sha256: str
    """Of the pixels: width, height and channels, then the raw bytes."""
    elapsed_s: float
    """Wall time of the request, output included."""
    stage_durations_s: dict[str, float]
    """The engine's own split of that time."""
    peak_memory_bytes: int
    """Highest during the request, all workers together; docs/architecture.md says what counts."""
    codec: str | None = None
    """Of the lossy file that a server sent and the frames were decoded from; None: lossless."""

    @classmethod
    def load(cls, folder: Path) -> Generation:
        """Read ``generation.json``; picture and trajectory are read when asked for."""
        return cls(folder=folder, **json.loads((folder / "generation.json").read_text()))

    def save(self) -> None:
        """Write ``generation.json``, last of the files of a generation."""
        facts = {
            name: getattr(self, name) for name in self.__dataclass_fields__ if name != "folder"
        }
        if self.codec is None:
            del facts["codec"]
        store.write_json(self.folder / "generation.json", facts)

    @cached_property
    def image(self) -> Image.Image:
        """The picture, lossless; of a video the first frame."""
        return self.frames[0]

    @property
    def image_file(self) -> Path:
        """The file of :attr:`image`."""
        return self._files[0]

    @cached_property
    def frames(self) -> list[Image.Image]:
        """All frames of a video, lossless; the one picture of an image."""
        from PIL import Image

        frames = []
        for file in self._files:
            with Image.open(file) as picture:
                frames.append(picture.copy())
        return frames

    @property
    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("frames/*.png")) or [self.folder / "image.png"]

    @cached_property
    def input_image(self) -> Image.Image | None:
        """The first frame that it was drawn from, lossless; None where a prompt was all.

        Raises:
            StoreError: there was one, and its file is not there any more.
        """
        from PIL import Image

        index = self.folder.name.partition("-")[0]
        file = self.folder.parent / INPUTS / f"{index}.png"
        if not file.is_file():
            if store.read(self.folder.parent)["spec"].get("images") is None:
                return None
            raise StoreError(
                f"{file} is missing, the first frame that {self.folder.name} was drawn from; copy "
                f"{INPUTS}/ too, or generate again with force=True"
            )
        with Image.open(file) as picture:
            return picture.copy()

    def mp4(self, path: str | Path | None = None, *, fps: float | None = None) -> Path:
        """The video as people watch it: H.264, yuv420p, the size of the frames.

        Args:
            path: Where to write it; None is ``video.mp4`` beside the frames, once, and with an fps
                of your own a file with that in its name.
            fps: Frames a second; None takes those of the sampling.

        Raises:
            SpecError: one picture, or frames a second that nobody gave.
        """
        own = self.folder / VIDEO
        if path is None and fps is None and own.is_file():
            return own
        if fps is not None:
            own = own.with_stem(f"{own.stem}-{fps:g}fps")
        if len(self.frames) < 2:
            raise SpecError(f"{self.folder} holds one picture, not a video; take .image")
        from workbench.videos import encode

        file = Path(path) if path is not None else own
        store.write_bytes(file, encode(self.frames, self._fps() if fps is None else fps))
        return file

    def _fps(self) -> float:
        fps = store.read(self.folder.parent)["spec"]["sampling"]["fps"]
        if fps is None:
            raise SpecError(f"{self.folder} was drawn without fps; say fps=..., such as 16")
        return fps

    @cached_property
    def trajectory(self) -> Trajectory:
        """The latents on the way to it.

        Raises:
            StoreError: none was recorded, as of whatever a server drew.
        """
        file = self.folder / "trajectory.safetensors"
        if not file.is_file():
            raise StoreError(
                f"{self.folder} holds no trajectory: a server hands out pictures alone, so they "
                "can be looked at and scored (workbench.score), and not followed step by step; "
                "draw the same with workbench.generate for that"
            )
        return Trajectory.load(file)


@dataclass(frozen=True, kw_only=True)
class GenerationSet:
    """All pictures of one request; iterates prompt by prompt, seed by seed."""

    path: Path
    spec: GenerateSpec
    audit: Audit
    items: tuple[Generation, ...]
    load_s: float
    """Time to start the engine."""
    checkpoint_bytes: dict[str, int]
    """Weight bytes of each component on disk."""
    provenance: dict[str, Any] = field(repr=False)

    @classmethod
    def load(cls, folder: Path) -> GenerationSet:
        """Read a generation folder of the store."""
        manifest = store.read(folder)
        return cls(
            path=folder,
            spec=GenerateSpec(**manifest["spec"]),
            audit=Audit.from_json(manifest["audit"]),
            items=tuple(Generation.load(folder / name) for name in manifest["items"]),
            load_s=manifest["load_s"],
            checkpoint_bytes=manifest["checkpoint_bytes"],
            provenance=manifest["provenance"],
        )

    @property
    def key(self) -> str:
        """First 12 hex digits that name its folder."""
        return self.path.name

    @property
    def precision(self) -> str:
        """Name for tables: BF16, FP8, INT8, W4A16, ..."""
        return self.spec.launch.precision

    @property
    def codec(self) -> str | None:
        """Of the lossy videos that a server sent, e.g. ``h264``; None where frames are lossless."""
        return next((item.codec for item in self.items if item.codec), None)

    @property
    def input_images(self) -> dict[str, Image.Image]:
        """Prompt -> the first frame that it was drawn from; empty where prompts were all."""
        found = {item.prompt: item.input_image for item in self.items}
        return {prompt: image for prompt, image in found.items() if image is not None}

    def __iter__(self) -> Iterator[Generation]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Generation:
        return self.items[index]

    def table(self) -> pd.DataFrame:
        """One row a picture: prompt, seed, elapsed_s, peak_memory_bytes, sha256."""
        import pandas as pd

        columns = ("prompt", "seed", "elapsed_s", "peak_memory_bytes", "sha256")
        return pd.DataFrame(
            [{name: getattr(item, name) for name in columns} for item in self.items]
        )


def load(key: str) -> Checkpoint | GenerationSet | Benchmark:
    """The finished artefact whose key starts with ``key``, from the run folder.

    Raises:
        StoreError: no such key, more than one, or a kind that this version does not know.
    """
    from workbench.speed import KIND, Benchmark

    folder = store.find(key)
    kinds = {"checkpoints": Checkpoint, "generations": GenerationSet, KIND: Benchmark}
    if folder.parent.name not in kinds:
        raise StoreError(
            f"{folder} is of kind {folder.parent.name!r}; known kinds are {', '.join(kinds)}"
        )
    return kinds[folder.parent.name].load(folder)
