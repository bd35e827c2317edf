"""A launched model: its audit, and the pictures it draws."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from workbench import store
from workbench.audits import Audit
from workbench.errors import LaunchFailed, WorkbenchError
from workbench.records import Generation, GenerationSet, Trajectory
from workbench.serve import omni
from workbench.serve.audit import audit
from workbench.serve.expected import expectations
from workbench.serve.guards import check_launch
from workbench.serve.media import frames_of, pixel_digest, png
from workbench.serve.proof import proved, samples
from workbench.serve.requests import generate_spec, needed_bytes, pairs
from workbench.serve.source import source_of
from workbench.specs import GenerateSpec, LaunchSpec, PromptSet, Sampling
from workbench.zoo.families import family_of
from workbench.zoo.weights import weight_bytes

logger = logging.getLogger(__name__)
KIND = "generations"


class Engine:
    """vLLM-Omni with one model at one precision and layout.

    Made by :func:`workbench.launch`. Closing it frees the model; a request that was interrupted
    closes the engine inside, and the next one starts it again.
    """

    def __init__(self, spec: LaunchSpec, folder: Path) -> None:
        self.spec = spec
        self.folder = folder
        self.family = family_of(folder)
        self.load_s = 0.0
        self._held_before = 0
        self._omni: Any = None
        self._closed = False
        check_launch(spec, self.family, folder)
        self.audit: Audit
        self._start()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the workers and free the model; again is harmless."""
        self._closed = True
        self._stop()

    def generate(
        self,
        prompts: PromptSet | Iterable[str] | str,
        *,
        seeds: Iterable[int] = (0,),
        sampling: Sampling | None = None,
        repeat: int = 0,
        force: bool = False,
    ) -> GenerationSet:
        """Draw every prompt at every seed; finished pictures are kept, missing ones are drawn.

        Args:
            prompts: A PromptSet, a list of prompts, or one prompt.
            seeds: Distinct integers, 0 to 2**63 - 1; the initial noise is drawn on the CPU.
            sampling: Steps, size, guidance; unset fields take the model's defaults.
            repeat: Counts independent runs of the same request.
            force: Draw all of them again.

        Raises:
            SpecError: a contradictory request, before anything runs.
            StoreError: the run folder cannot be written, or is full; finished pictures stay.
            LaunchFailed: the engine died; the same call goes on where it stopped.
        """
        spec = generate_spec(
            self.spec, self.folder, prompts, seeds=seeds, sampling=sampling, repeat=repeat
        )
        if store.has(KIND, spec) and not force:
            return GenerationSet.load(store.open_complete(KIND, spec))
        folder = store.prepare(KIND, spec, needed_bytes=needed_bytes(spec), force=force)
        names = [self._draw_missing(folder, spec, *pair) for pair in pairs(spec)]
        store.commit(
            folder,
            spec,
            {
                "items": names,
                "audit": self.audit.to_json(),
                "load_s": self.load_s,
                "checkpoint_bytes": weight_bytes(self.folder),
            },
        )
        return GenerationSet.load(folder)

    def _draw_missing(
        self, folder: Path, spec: GenerateSpec, index: int, prompt: str, seed: int
    ) -> str:
        name = f"{index:04d}-{seed}"
        target = folder / name
        if not (target / "generation.json").is_file():
            self._draw(target, prompt, seed, spec.sampling)
        return name

    def _draw(self, folder: Path, prompt: str, seed: int, sampling: Sampling) -> None:
        output, trace, elapsed_s = self._request(prompt, seed, sampling)
        frames = frames_of(output)
        store.make_folder(folder / "frames" if len(frames) > 1 else folder)
        for number, frame in enumerate(frames):
            name = f"frames/{number:04d}.png" if len(frames) > 1 else "image.png"
            store.write_bytes(folder / name, png(frame))
        _trajectory(trace, self.family.name).save(folder / "trajectory.safetensors")
        Generation(
            folder=folder,
            prompt=prompt,
            seed=seed,
            sha256=pixel_digest(frames),
            elapsed_s=elapsed_s,
            stage_durations_s=_seconds(output.stage_durations),
            peak_memory_bytes=trace["peak_memory_bytes"] - self._held_before,
        ).save()

    def _request(
        self, prompt: str, seed: int, sampling: Sampling
    ) -> tuple[Any, dict[str, Any], float]:
        if self._closed:
            raise LaunchFailed("this engine is closed; launch the model again")
        if self._omni is None:
            self._start()
        try:
            counting = self.spec.enforce_eager and self.audit.flops_coverage is None
            omni.call(self._omni, "workbench_start", True, counting)
            began = time.perf_counter()
            output = omni.request(self._omni, prompt, seed, sampling)
            elapsed_s = time.perf_counter() - began
            trace = omni.call(self._omni, "workbench_finish")
            if trace["rows"] is not None:
                self.audit = self.audit.counted(trace["rows"])
            return output, trace, elapsed_s
        except BaseException as error:  # an interrupt too leaves a request inside the engine
            self._stop()
            if isinstance(error, Exception):
                raise LaunchFailed(
                    f"{self.spec.precision} failed on {prompt!r} with seed {seed}: {error}; what "
                    "was finished is kept, and the same call goes on with a fresh engine"
                ) from error
            raise

    def _start(self) -> None:
        began = time.perf_counter()
        try:
            self._held_before = omni.held_bytes(self.spec)
            self._omni = omni.start(self.folder, self.spec)
            self.audit = self._proved_audit()
        except BaseException as error:
            self._stop()
            if isinstance(error, WorkbenchError) or not isinstance(error, Exception):
                raise
            raise LaunchFailed(
                f"vLLM-Omni did not start {self.folder} at {self.spec.precision}: {error}"
            ) from error
        self.load_s = time.perf_counter() - began
        logger.info("%s", self.audit)

    def _proved_audit(self) -> Audit:
        expected = expectations(self.folder, self.family, self.spec)
        found = audit(self.spec, expected, omni.call(self._omni, "workbench_census"))
        source = source_of(self.spec, self.folder, self.family)
        asked = samples(found.layers, expected, source)
        answers = omni.call(self._omni, "workbench_read_back", asked)["answers"]
        return proved(found, asked, answers, source)

    def _stop(self) -> None:
        if self._omni is None:
            return
        engine, self._omni = self._omni, None
        engine.close()
        del engine  # else its worker survives the collection
        omni.give_memory_back()


def _trajectory(trace: dict[str, Any], family: str) -> Trajectory:
    recorded = trace["trajectory"]
    if not recorded:
        raise LaunchFailed(
            f"no denoising step of {family} was seen; its pipeline steps in a way we do not wrap"
        )
    timesteps = np.asarray(recorded["timesteps"], dtype=np.float64)
    return Trajectory(
        latents=np.asarray(recorded["latents"], dtype=np.float32), timesteps=timesteps
    )


def _seconds(durations: dict[str, float] | None) -> dict[str, float]:
    """The engine gives milliseconds under names that end in ``_ms`` and seconds under others."""
    return {
        name.removesuffix("_ms"): value / 1000 if name.endswith("_ms") else value
        for name, value in (durations or {}).items()
    }
