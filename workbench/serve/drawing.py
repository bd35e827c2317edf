"""A population on disk: finished pictures are kept, missing ones drawn, the manifest is last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from workbench import store
from workbench.audits import Audit
from workbench.errors import LaunchFailed
from workbench.pixels import pixel_digest, png
from workbench.records import VIDEO, Generation, GenerationSet, Trajectory
from workbench.serve.progress import interruptible_progress
from workbench.serve.requests import Asked, needed_bytes, pairs
from workbench.zoo.weights import weight_bytes

if TYPE_CHECKING:
    from PIL import Image

KIND = "generations"


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """One picture or video as it comes out of a pipeline."""

    frames: list[Image.Image]
    trajectory: Trajectory | None
    """None where nothing can record it."""
    elapsed_s: float
    stage_durations_s: dict[str, float]
    peak_memory_bytes: int
    encoded: bytes | None = None
    """The video file that a server sent, which the frames were decoded from."""
    codec: str | None = None
    """Of that file."""


class Launched(Protocol):
    """An engine, a server or a plain pipeline."""

    audit: Audit
    folder: Path
    load_s: float

    def release_memory(self) -> None:
        """Let the allocators go of what they keep of earlier requests."""


def populate(
    asked: Asked,
    draw: Callable[[str, int, Image.Image | None], Drawn],
    launched: Launched,
    *,
    force: bool,
    **facts: Any,
) -> GenerationSet:
    """The set of a request: from the store when it is whole, else drawn where it has gaps.

    Args:
        asked: What is asked for, with the images that it begins with.
        draw: Makes the picture of a prompt, a seed and a first frame.
        launched: What draws; its audit is asked for after the last picture, when it is complete.
        force: Draw all of them again.
        **facts: More for the manifest.

    Raises:
        StoreError: the run folder cannot be written, or is full; finished pictures stay.
    """
    spec, images = asked
    if store.has(KIND, spec) and not force:
        return GenerationSet.load(store.open_complete(KIND, spec))
    folder = store.prepare(KIND, spec, needed_bytes=needed_bytes(spec), force=force)
    for index, prompt in enumerate(spec.prompts.prompts if images else ()):
        images[prompt].save(folder, index)
    launched.release_memory()  # else their peak would count as that of these
    names = []
    with interruptible_progress():
        for index, prompt, seed in pairs(spec):
            names.append(f"{index:04d}-{seed}")
            if not (folder / names[-1] / "generation.json").is_file():
                image = images[prompt].picture if images else None
                _save(folder / names[-1], prompt, seed, draw(prompt, seed, image))
    content = {
        "items": names,
        **({"inputs": [images[p].record for p in spec.prompts.prompts]} if images else {}),
        "audit": launched.audit.to_json(),
        "load_s": launched.load_s,
        "checkpoint_bytes": weight_bytes(launched.folder),
        **facts,
    }
    store.commit(folder, spec, content)
    return GenerationSet.load(folder)


def trajectory_of(recorded: dict[str, Any], family: str) -> Trajectory:
    """What a recorder kept, as a trajectory.

    Raises:
        LaunchFailed: it kept nothing.
    """
    if not recorded:
        raise LaunchFailed(
            f"no denoising step of {family} was seen; its pipeline steps in a way we do not wrap"
        )
    return Trajectory(
        latents=np.asarray(recorded["latents"], dtype=np.float32),
        timesteps=np.asarray(recorded["timesteps"], dtype=np.float64),
        experts=recorded["experts"],
    )


def seconds(durations: dict[str, float] | None) -> dict[str, float]:
    """The engine gives milliseconds under names that end in ``_ms`` and seconds under others."""
    return {
        name.removesuffix("_ms"): value / 1000 if name.endswith("_ms") else value
        for name, value in (durations or {}).items()
    }


def _save(folder: Path, prompt: str, seed: int, drawn: Drawn) -> None:
    many = len(drawn.frames) > 1
    store.make_folder(folder / "frames" if many else folder)
    for number, frame in enumerate(drawn.frames):
        name = f"frames/{number:04d}.png" if many else "image.png"
        store.write_bytes(folder / name, png(frame))
    if drawn.trajectory is not None:
        drawn.trajectory.save(folder / "trajectory.safetensors")
    if drawn.encoded is not None:
        store.write_bytes(folder / VIDEO, drawn.encoded)
    Generation(
        folder=folder,
        prompt=prompt,
        seed=seed,
        sha256=pixel_digest(drawn.frames),
        elapsed_s=drawn.elapsed_s,
        stage_durations_s=drawn.stage_durations_s,
        peak_memory_bytes=drawn.peak_memory_bytes,
        codec=drawn.codec,
    ).save()
