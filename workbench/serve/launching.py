"""The two ways in: an engine to keep, or one population and the engine closed again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench import store
from workbench.followed import VELOCITIES, Followed
from workbench.records import Checkpoint, GenerationSet
from workbench.serve.drawing import KIND
from workbench.serve.engine import Engine
from workbench.serve.following import follow_spec
from workbench.serve.plain import PlainDiffusers
from workbench.serve.requests import asked_for, launch_spec, needed_bytes, refuse_runtime
from workbench.specs import ModelRef, PromptSet, Sampling


def launch(model: ModelRef | Checkpoint | str, **options: Any) -> Engine:
    """Start vLLM-Omni with a model or a quantized checkpoint; use it in a ``with`` statement.

    Args:
        model: A ModelRef or its source as a string, or a Checkpoint of :func:`workbench.quantize`.
        **options: Fields of LaunchSpec: quantization, dtype, parallelism, attention_backend,
            step_execution, max_num_seqs, enforce_eager.

    Raises:
        SpecError: unknown or contradictory options, before anything loads.
        ModelNotFound: the model leads to no pipeline.
        NotSupportedHere: a valid request that needs another machine.
        PrecisionNotApplied: the loaded modules do not run at the precision asked for.
        LaunchFailed: the engine did not start.
    """
    spec, folder = launch_spec(model, **options)
    refuse_runtime(spec, "vllm-omni")
    return Engine(spec, folder)


def generate(
    model: ModelRef | Checkpoint | str,
    prompts: PromptSet | Iterable[str] | str,
    *,
    seeds: Iterable[int] = (0,),
    sampling: Sampling | None = None,
    images: Any = None,
    repeat: int = 0,
    force: bool = False,
    **options: Any,
) -> GenerationSet:
    """Launch, generate, close; when all pictures are there already, nothing is launched.

    Arguments are those of :func:`launch` and :meth:`Engine.generate`; ``runtime="diffusers"`` draws
    with the plain pipeline instead.
    """
    spec, folder = launch_spec(model, **options)
    refuse_runtime(spec, "vllm-omni", "diffusers")
    asked = asked_for(
        spec, folder, prompts, seeds=seeds, sampling=sampling, repeat=repeat, images=images
    )
    request = asked.spec
    if store.has(KIND, request) and not force:
        return GenerationSet.load(store.open_complete(KIND, request))
    store.prepare(KIND, request, needed_bytes=needed_bytes(request))
    if spec.runtime == "diffusers":
        return PlainDiffusers(spec, folder).populate(asked, force=force)
    with Engine(spec, folder) as engine:
        return engine.populate(asked, force=force)


def follow(
    model: ModelRef | Checkpoint | str,
    reference: GenerationSet,
    *,
    pairs: int | None = None,
    repeat: int = 0,
    **options: Any,
) -> Followed:
    """Launch, follow a set's trajectories, close; see :meth:`Engine.follow`.

    Nothing is launched when all of it is in the store.
    """
    spec, folder = launch_spec(model, **options)
    refuse_runtime(spec, "vllm-omni")
    request = follow_spec(spec, reference, pairs, repeat)
    if store.has(VELOCITIES, request):
        return Followed.load(store.open_complete(VELOCITIES, request))
    with Engine(spec, folder) as engine:
        return engine.follow(reference, pairs=pairs, repeat=repeat)
