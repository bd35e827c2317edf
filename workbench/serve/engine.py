"""A launched model: its audit, and the pictures it draws."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from workbench import store, zoo
from workbench.errors import LaunchFailed, PrecisionNotApplied, SpecError, WorkbenchError
from workbench.records import Audit, Checkpoint, Generation, GenerationSet, Trajectory
from workbench.serve import omni
from workbench.serve.audit import audit
from workbench.serve.guards import check_launch, check_sampling
from workbench.serve.media import frames_of, pixel_digest, png
from workbench.specs import GenerateSpec, LaunchSpec, ModelRef, PromptSet, Sampling
from workbench.zoo.families import family_of
from workbench.zoo.weights import weight_bytes

logger = logging.getLogger(__name__)
KIND = "generations"
BYTES_A_PIXEL = 6  # PNG of a photograph, generously
LATENT_BYTES_A_PIXEL = 1  # float32, 16 channels, 8 x 8 pixels a latent


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
        self._omni: Any = None
        self._closed = False
        check_launch(spec, self.family, folder)
        self.audit: Audit = self._start()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
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
        spec = generate_spec(self.spec, self.folder, prompts, seeds, sampling, repeat)
        if store.has(KIND, spec) and not force:
            return GenerationSet.load(store.open_complete(KIND, spec))
        folder = store.prepare(KIND, spec, needed_bytes=_needed_bytes(spec), force=force)
        names = [self._draw_missing(folder, spec, *pair) for pair in _pairs(spec)]
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

    def _draw_missing(self, folder: Path, spec: GenerateSpec, index: int, prompt: str, seed: int) -> str:
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
            peak_memory_bytes=trace["peak_memory_bytes"],
        ).save()

    def _request(self, prompt: str, seed: int, sampling: Sampling) -> tuple[Any, dict[str, Any], float]:
        if self._closed:
            raise LaunchFailed("this engine is closed; launch the model again")
        if self._omni is None:
            self._start()
        try:
            omni.call(self._omni, "workbench_start", True)
            began = time.perf_counter()
            output = omni.request(self._omni, prompt, seed, sampling)
            elapsed_s = time.perf_counter() - began
            return output, omni.call(self._omni, "workbench_finish"), elapsed_s
        except BaseException as error:  # an interrupt too leaves a request inside the engine
            self._stop()
            if isinstance(error, Exception):
                raise LaunchFailed(
                    f"{self.spec.precision} failed on {prompt!r} with seed {seed}: {error}; what was "
                    "finished is kept, and the same call goes on with a fresh engine"
                ) from error
            raise

    def _start(self) -> Audit:
        began = time.perf_counter()
        try:
            self._omni = omni.start(self.folder, self.spec)
            result = audit(self.spec, self.family.name, omni.call(self._omni, "workbench_census"))
        except BaseException as error:
            self._stop()
            if isinstance(error, WorkbenchError) or not isinstance(error, Exception):
                raise
            raise LaunchFailed(
                f"vLLM-Omni did not start {self.folder} at {self.spec.precision}: {error}"
            ) from error
        self.load_s = time.perf_counter() - began
        logger.info("%s", result)
        return result

    def _stop(self) -> None:
        engine, self._omni = self._omni, None
        if engine is not None:
            engine.close()


def launch(model: ModelRef | Checkpoint | str, **options: Any) -> Engine:
    """Start vLLM-Omni with a model or a quantized checkpoint; use it in a ``with`` statement.

    Args:
        model: A ModelRef (or its source as a string), or a Checkpoint of :func:`workbench.quantize`.
        **options: Fields of LaunchSpec: quantization, dtype, parallelism, attention_backend,
            step_execution, max_num_seqs, enforce_eager.

    Raises:
        SpecError: unknown or contradictory options, before anything loads.
        ModelNotFound: the model leads to no pipeline.
        NotSupportedHere: a valid request that needs another machine.
        PrecisionNotApplied: the loaded modules do not run at the precision asked for.
        LaunchFailed: the engine did not start.
    """
    return Engine(*launch_spec(model, **options))


def generate(
    model: ModelRef | Checkpoint | str,
    prompts: PromptSet | Iterable[str] | str,
    *,
    seeds: Iterable[int] = (0,),
    sampling: Sampling | None = None,
    repeat: int = 0,
    force: bool = False,
    **options: Any,
) -> GenerationSet:
    """Launch, generate, close; when all pictures are there already, nothing is launched.

    Arguments are those of :func:`launch` and :meth:`Engine.generate`.
    """
    spec, folder = launch_spec(model, **options)
    request = generate_spec(spec, folder, prompts, seeds, sampling, repeat)
    if store.has(KIND, request) and not force:
        return GenerationSet.load(store.open_complete(KIND, request))
    store.prepare(KIND, request, needed_bytes=_needed_bytes(request))
    with Engine(spec, folder) as engine:
        return engine.generate(
            request.prompts, seeds=request.seeds, sampling=request.sampling, repeat=repeat, force=force
        )


def launch_spec(model: ModelRef | Checkpoint | str, **options: Any) -> tuple[LaunchSpec, Path]:
    """What is launched, with its revision pinned, and the folder it lies in."""
    if isinstance(model, Checkpoint):
        return LaunchSpec(model=model.model, recipe=model.recipe, **options), model.path
    reference = zoo.pin(model if isinstance(model, ModelRef) else ModelRef(model))
    return LaunchSpec(model=reference, **options), zoo.locate(reference)


def generate_spec(
    launch: LaunchSpec,
    folder: Path,
    prompts: PromptSet | Iterable[str] | str,
    seeds: Iterable[int],
    sampling: Sampling | None,
    repeat: int,
) -> GenerateSpec:
    """The full request: the model's own defaults fill what the sampling leaves open."""
    given = (sampling or Sampling()).model_dump(exclude_none=True)
    full = Sampling(**{**zoo.default_sampling(folder), **given})
    check_sampling(launch, family_of(folder), full)
    texts = prompts if isinstance(prompts, PromptSet) else PromptSet(prompts)
    return GenerateSpec(launch=launch, prompts=texts, seeds=tuple(seeds), sampling=full, repeat=repeat)


def _pairs(spec: GenerateSpec) -> Iterable[tuple[int, str, int]]:
    pairs = [(i, prompt, seed) for i, prompt in enumerate(spec.prompts.prompts) for seed in spec.seeds]
    return tqdm(pairs, desc=spec.launch.precision, unit="picture")


def _needed_bytes(spec: GenerateSpec) -> int:
    sampling = spec.sampling
    pixels = (sampling.height or 1024) * (sampling.width or 1024)
    one = pixels * (BYTES_A_PIXEL + LATENT_BYTES_A_PIXEL * (sampling.num_inference_steps + 1))
    return one * len(spec.prompts.prompts) * len(spec.seeds)


def _trajectory(trace: dict[str, Any], family: str) -> Trajectory:
    recorded = trace["trajectory"]
    if not recorded:
        raise SpecError(f"no denoising step of {family} was seen; its pipeline steps in a way we do not wrap")
    timesteps = np.asarray(recorded["timesteps"], dtype=np.float64)
    return Trajectory(latents=np.asarray(recorded["latents"], dtype=np.float32), timesteps=timesteps)


def _seconds(durations: dict[str, float] | None) -> dict[str, float]:
    """The engine gives milliseconds under names that end in ``_ms`` and seconds under others."""
    return {
        name.removesuffix("_ms"): value / 1000 if name.endswith("_ms") else value
        for name, value in (durations or {}).items()
    }
