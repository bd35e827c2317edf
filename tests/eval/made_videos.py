"""Sets of videos whose errors are known, through the real records and store; no engine."""

from collections.abc import Callable
from typing import Any

import numpy as np
from conftest import PROMPTS, STEPS, audit_of, latents_of, launch_of
from moving_clips import as_uint8, ball_clip
from PIL import Image

from workbench import store
from workbench.pixels import pixel_digest
from workbench.records import Generation, GenerationSet
from workbench.specs import GenerateSpec, PromptSet, Sampling

Fault = Callable[[np.ndarray], np.ndarray]


def unchanged(clip: np.ndarray) -> np.ndarray:
    return clip


def make_videos(
    precision: str = "BF16",
    fault: Fault = unchanged,
    *,
    frames: int = 9,
    prompts: tuple[str, ...] = PROMPTS,
    seeds: tuple[int, ...] = (0, 7),
    repeat: int = 0,
    noise: float = 0.01,
    launch: dict[str, Any] | None = None,
    images: tuple[str, ...] | None = None,
    **sampling: Any,
) -> GenerationSet:
    """Balls that go right, one a prompt and seed; ``fault`` changes floats from 0 to 1.

    ``noise`` is the error of the latents, of every set but the reference and its repeats;
    ``images`` are digests of first frames, one a prompt.
    """
    spec = GenerateSpec(
        launch=launch_of(precision, **(launch or {})),
        prompts=PromptSet(prompts),
        seeds=seeds,
        sampling=Sampling(
            **{"num_inference_steps": STEPS, "num_frames": frames, "fps": 8} | sampling
        ),
        repeat=repeat,
        images=images,
    )
    folder = store.prepare("generations", spec, force=True)
    names = []
    for index, (prompt, seed) in enumerate((p, s) for p in prompts for s in seeds):
        names.append(f"{index:04d}")
        over = ball_clip(min(frames, 9), seed=len(prompt) + seed)  # again and again
        clip = as_uint8(np.clip(fault(over[np.arange(frames) % len(over)]), 0, 1))
        pictures = [Image.fromarray(frame) for frame in clip]
        _write(folder / names[-1], prompt, seed, pictures)
        off = 0.0 if precision == "BF16" else noise
        latents_of(prompt, seed, off, repeat).save(folder / names[-1] / "trajectory.safetensors")
    facts = {"items": names, "load_s": 3.0, "checkpoint_bytes": {"transformer": 4 * 2**20}}
    store.commit(folder, spec, {"audit": audit_of(precision).to_json(), **facts})
    return GenerationSet.load(folder)


def _write(folder, prompt, seed, pictures) -> None:
    many = len(pictures) > 1
    (folder / "frames" if many else folder).mkdir(parents=True)
    for number, picture in enumerate(pictures):
        picture.save(folder / (f"frames/{number:04d}.png" if many else "image.png"))
    Generation(
        folder=folder,
        prompt=prompt,
        seed=seed,
        sha256=pixel_digest(pictures),
        elapsed_s=2.0,
        stage_durations_s={"denoise": 1.0},
        peak_memory_bytes=100 * 2**20,
    ).save()
