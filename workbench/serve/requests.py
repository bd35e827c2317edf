"""What the user says -> full specs: revision pinned, the model's own defaults filled in."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tqdm.auto import tqdm

from workbench import zoo
from workbench.errors import SpecError
from workbench.first_frames import InputImage
from workbench.records import Checkpoint
from workbench.sampling import VAE_FRAMES
from workbench.serve.defaults import full_sampling
from workbench.serve.guards import check_prompts, check_sampling, check_steps
from workbench.serve.inputs import input_images
from workbench.serve.plan_guards import check_sequence
from workbench.serve.stored import stored_label
from workbench.specs import (
    GenerateSpec,
    LaunchSpec,
    ModelRef,
    PromptSet,
    Route,
    Sampling,
    Workload,
)
from workbench.zoo.families import family_of
from workbench.zoo.sizes import drawable

BYTES_A_PIXEL = 6  # PNG of a photograph, generously
_FORMS = {
    "diffusers": "workbench.generate draws with it",
    "vllm-omni": "workbench.launch starts it",
    "vllm-omni-server": "workbench.serve starts it",
}
"""Runtime -> what starts it."""
_FILLED_IN = {
    "recipe": "it comes with the checkpoint; give what workbench.quantize(model, recipe) returned",
    "stored": "the folder's own metadata say it; leave it out",
}
"""Field of LaunchSpec that is no option -> why."""
LATENT_BYTES_A_PIXEL = 1  # float32, 16 channels, 8 x 8 pixels a latent; 48 channels, 16 x 16: 0.75


def launch_spec(model: ModelRef | Checkpoint | str, **options: Any) -> tuple[LaunchSpec, Path]:
    """What is launched, with its revision pinned, and the folder it lies in.

    A folder that is quantized already serves by its own metadata: ``stored`` says as what.

    Raises:
        SpecError: unknown or contradictory options, or a folder whose metadata contradicts its
            files.
        ModelNotFound: the model leads to no pipeline.
    """
    for name in _FILLED_IN.keys() & options.keys():
        raise SpecError(f"{name}={options[name]!r} is no option: {_FILLED_IN[name]}")
    if isinstance(model, Checkpoint):
        return LaunchSpec(model=model.model, recipe=model.recipe, **options), model.path
    reference = zoo.pin(model if isinstance(model, ModelRef) else ModelRef(model))
    folder = zoo.locate(reference)
    return LaunchSpec(model=reference, stored=stored_label(folder), **options), folder


def refuse_runtime(spec: LaunchSpec, *allowed: str) -> None:
    """Refuse a runtime that the function called does not start.

    Raises:
        SpecError: names the one that does.
    """
    if spec.runtime not in allowed:
        raise SpecError(
            f"runtime={spec.runtime!r} is not what this starts, which is {' or '.join(allowed)}; "
            f"{_FORMS[spec.runtime]}"
        )


class Asked(NamedTuple):
    """A request, and the pixels that it begins with."""

    spec: GenerateSpec
    images: dict[str, InputImage]
    """Prompt -> its first frame; empty for prompts alone."""


def asked_for(
    launch: LaunchSpec,
    folder: Path,
    prompts: PromptSet | Iterable[str] | str,
    *,
    seeds: Iterable[int],
    sampling: Sampling | None,
    repeat: int = 0,
    images: Any = None,
    route: Route | None = None,
) -> Asked:
    """The full request: the model's own defaults fill what the sampling leaves open.

    Warns where another number of frames is drawn than asked for, or an image is scaled.

    Raises:
        SpecError: prompts, a sampling or images that the launched model cannot serve.
    """
    texts = prompts if isinstance(prompts, PromptSet) else PromptSet(prompts)
    full = _checked(launch, folder, texts, sampling)
    found = input_images(images, texts.prompts, folder, family_of(folder), full)
    spec = GenerateSpec(
        launch=launch,
        prompts=texts,
        seeds=seeds,
        sampling=full,
        repeat=repeat,
        route=route,
        images=_digests(found),
    )
    return Asked(spec, found)


class AskedLoad(NamedTuple):
    """A load, and the pixels that its requests begin with."""

    workload: Workload
    """With the model's own defaults, and the digests of the images."""
    images: dict[str, InputImage]
    """Prompt -> its first frame; empty for prompts alone."""


def asked_load(launch: LaunchSpec, folder: Path, workload: Workload, images: Any) -> AskedLoad:
    """The full workload; warns as :func:`asked_for` does.

    Raises:
        SpecError: no workload, prompts or a sampling that the launched model cannot serve, a route
            where there is no server, images that the model does not take or needs, or others than
            the workload names.
    """
    if not isinstance(workload, Workload):
        raise SpecError(
            f"workload={workload!r} is a {type(workload).__name__}; give "
            "workbench.Workload(prompts, requests=...)"
        )
    if workload.route is not None and launch.runtime != "vllm-omni-server":
        raise SpecError(
            f"the workload's route={workload.route!r} is one of a server, and {launch.runtime} has "
            "none; leave it out, or put it to what workbench.serve returned"
        )
    full = _checked(launch, folder, workload.prompts, workload.sampling)
    found = input_images(images, workload.prompts.prompts, folder, family_of(folder), full)
    digests = _digests(found)
    if workload.images not in (None, digests):
        raise SpecError(
            f"the workload names images of SHA-256 {list(workload.images)}, and images= gives "
            f"{'none' if digests is None else list(digests)}; give those, or leave its images out"
        )
    return AskedLoad(workload.but(sampling=full, images=digests), found)


def _digests(images: dict[str, InputImage]) -> tuple[str, ...] | None:
    """In the order of the prompts."""
    return tuple(image.sha256 for image in images.values()) or None


def _checked(
    launch: LaunchSpec, folder: Path, prompts: PromptSet, sampling: Sampling | None
) -> Sampling:
    family = family_of(folder)
    check_prompts(launch, family, prompts.prompts)
    full, note = drawable(folder, family, full_sampling(folder, sampling))
    if note:
        warnings.warn(note, stacklevel=4)
    check_sampling(launch, family, folder, full)
    check_steps(folder, full)
    check_sequence(launch, family, folder, full)
    return full


def pairs(spec: GenerateSpec) -> Iterable[tuple[int, str, int]]:
    """(index of the prompt, prompt, seed), prompt by prompt, with a progress bar."""
    every = [
        (i, prompt, seed) for i, prompt in enumerate(spec.prompts.prompts) for seed in spec.seeds
    ]
    return tqdm(every, desc=spec.launch.precision, unit="picture")


def needed_bytes(spec: GenerateSpec) -> int:
    """Disk space that a request takes, estimated from above."""
    sampling = spec.sampling
    frames = sampling.num_frames or 1
    each = BYTES_A_PIXEL * frames
    if spec.route is None:  # a server hands out no latents
        latent_frames = (frames - 1) // VAE_FRAMES + 1
        each += LATENT_BYTES_A_PIXEL * latent_frames * (sampling.num_inference_steps + 1)
    pixels = (sampling.height or 1024) * (sampling.width or 1024)
    return pixels * each * len(spec.prompts.prompts) * len(spec.seeds)
