"""The reference against itself: the distance below which nothing can be told from noise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from workbench.errors import ComparisonRefused, NotSupportedHere, SpecError
from workbench.eval import compare
from workbench.eval.floor import NoiseFloor
from workbench.serve import generate
from workbench.specs import GenerateSpec, LaunchSpec, Parallelism

if TYPE_CHECKING:
    from PIL import Image

    from workbench.eval.comparison import Comparison
    from workbench.records import GenerationSet

Changes = dict[str, Any]


def noise_floor(
    reference: GenerationSet | GenerateSpec,
    *,
    repeats: int = 1,
    attention_backends: Iterable[str] = (),
    parallelisms: Iterable[Parallelism] = (),
    diffusers: bool = False,
) -> NoiseFloor:
    """Draw the reference again, under each of these conditions alone, and compare.

    What is in the store is not drawn again. A condition that this machine cannot run is listed
    with the reason instead of a number.

    Args:
        reference: The set that candidates will be compared with, or the request of one; of a model
            at 16 bit, served by vLLM-Omni.
        repeats: Independent runs of the same request, 0 or more; the farthest of them is the floor.
        attention_backends: Such as ``"TORCH_SDPA"``.
        parallelisms: Such as ``Parallelism(tensor_parallel_size=2)``.
        diffusers: Also the same weights in plain diffusers.

    Raises:
        SpecError: a reference that is quantized, or a request with images instead of its set.
    """
    spec = reference if isinstance(reference, GenerateSpec) else reference.spec
    _refuse_quantized(spec.launch)
    images = _images(reference)
    base = _draw(spec, {}, spec.repeat) if isinstance(reference, GenerateSpec) else reference
    measured: dict[str, Comparison] = {}
    missing: dict[str, str] = {}
    for number in range(1, repeats + 1):
        name = "repeat" if number == 1 else f"repeat {number}"
        measured[name] = compare(base, _draw(spec, {}, spec.repeat + number, images))
    for name, changes in _conditions(attention_backends, parallelisms, diffusers=diffusers):
        try:
            again = _draw(spec, changes, spec.repeat, images)
            measured[name] = compare(base, again, across=_across(changes))
        except (NotSupportedHere, SpecError, ComparisonRefused) as error:
            missing[name] = str(error)
    return NoiseFloor(reference=base, measured=measured, missing=missing)


def _conditions(
    attention_backends: Iterable[str], parallelisms: Iterable[Parallelism], *, diffusers: bool
) -> Iterable[tuple[str, Changes]]:
    for backend in attention_backends:
        yield f"attention_backend={backend}", {"attention_backend": backend}
    for layout in parallelisms:
        degrees = {name: size for name, size in layout.model_dump().items() if size > 1}
        name = ", ".join(f"{name}={size}" for name, size in degrees.items())
        yield name or "one device", {"parallelism": layout}
    if diffusers:
        yield "diffusers", {"runtime": "diffusers"}


def _across(changes: Changes) -> tuple[str, ...]:
    if "runtime" not in changes:
        return tuple(changes)
    return (
        "runtime",
        "attention_backend",
        "parallelism",
        "step_execution",
        "max_num_seqs",
        "enforce_eager",
    )


def _images(reference: GenerationSet | GenerateSpec) -> list[Image.Image] | None:
    """First frames by prompt, at the size that is drawn; a request alone holds digests."""
    if isinstance(reference, GenerateSpec):
        if reference.images is not None:
            raise SpecError(
                f"the request {reference.key} begins with images, of which it holds digests alone; "
                "give the set that was drawn"
            )
        return None
    found = reference.input_images
    return [found[prompt] for prompt in reference.spec.prompts.prompts] if found else None


def _draw(
    spec: GenerateSpec, changes: Changes, repeat: int, images: list[Image.Image] | None = None
) -> GenerationSet:
    kept = {} if "runtime" in changes else _options(spec.launch)
    return generate(
        spec.launch.model,
        spec.prompts,
        seeds=spec.seeds,
        sampling=spec.sampling,
        images=images,
        repeat=repeat,
        **{**kept, "dtype": spec.launch.dtype, **changes},
    )


def _options(launch: LaunchSpec) -> Changes:
    left = {"model", "recipe", "stored", "quantization"}
    return {name: getattr(launch, name) for name in LaunchSpec.model_fields if name not in left}


def _refuse_quantized(launch: LaunchSpec) -> None:
    if launch.recipe or launch.stored or launch.quantization:
        raise SpecError(
            f"the reference runs {launch.precision}; a noise floor is that of the 16-bit model, "
            "so give the set that candidates are compared with"
        )
