"""What a layout must divide, rule by rule: each says what is wrong, or None.

The guards of a launch and the planner ask the same functions. Lines are of vllm-omni and vllm
0.30.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from workbench.sampling import Sampling
from workbench.specs import LaunchSpec, Parallelism
from workbench.zoo.families import Family
from workbench.zoo.parallel import PLAIN_VAE, Support

SECOND = "guidance_scale_2"
STEPWISE = ("qwen-image",)


def heads_problem(
    component: str, heads: int, layout: Parallelism, kv_heads: int | None = None
) -> str | None:
    """Each rank of tensor parallelism holds whole heads, which Ulysses then shares out again.

    Args:
        component: That has them, for the message.
        heads: Attention heads of the queries.
        layout: What is asked for.
        kv_heads: Of keys and values; None is as many.
    """
    # vllm/model_executor/layers/linear.py:1048, attention/parallel/ulysses.py:514.
    size, degree = layout.tensor_parallel_size, layout.ulysses_degree
    return (
        _shared("tensor_parallel_size", size, heads, heads, component)
        or _shared("ulysses_degree", degree, heads // size, heads, component)
        or _kv_problem(component, kv_heads or heads, layout)
    )


def _shared(name: str, degree: int, among: int, heads: int, component: str) -> str | None:
    if among >= 1 and among % degree == 0:
        return None
    valid = [n for n in range(1, among + 1) if among % n == 0]
    left = "" if among == heads else f", of which each tensor-parallel rank has {among}"
    return (
        f"{name}={degree} does not divide the {heads} attention heads of {component}{left};"
        f" use one of {valid}"
    )


def _kv_problem(component: str, heads: int, layout: Parallelism) -> str | None:
    """More ranks than key heads hold copies of them; vllm/model_executor/layers/linear.py:1049."""
    size, degree = layout.tensor_parallel_size, layout.ulysses_degree
    if max(size, heads) % min(size, heads):
        return (
            f"tensor_parallel_size={size} and the {heads} key and value heads of {component} do "
            "not divide one another; use a divisor of them"
        )
    if max(heads // size, 1) % degree:
        return (
            f"ulysses_degree={degree} does not divide the {max(heads // size, 1)} key and value "
            f"heads of {component} on each tensor-parallel rank; use a divisor of them"
        )
    return None


def support_problems(support: Support, layout: Parallelism) -> Iterator[str]:
    """Sizes above 1 that the family's pipeline cannot have, or silently ignores."""
    size = layout.tensor_parallel_size
    if size > 1 and support.only_one_tensor_rank:
        yield (
            f"tensor_parallel_size={size}: {support.family} runs on one tensor-parallel rank; "
            f"{support.only_one_tensor_rank}"
        )
    sequence = layout.ulysses_degree * layout.ring_degree
    if sequence > 1 and support.sequence == "none":
        yield (
            f"ulysses_degree={layout.ulysses_degree} and ring_degree={layout.ring_degree} save "
            f"{support.family} nothing: {support.sequence_source}; use tensor_parallel_size"
        )
    if layout.cfg_parallel_size > 1 and not support.guidance:
        yield (
            f"cfg_parallel_size={layout.cfg_parallel_size} is ignored by {support.family}, which "
            f"does not split its two branches ({support.guidance_source}); use 1"
        )


def patches_problem(support: Support, layout: Parallelism) -> str | None:
    """Some VAEs are decoded whole, the others by the ranks there are, however many are asked for.

    distributed/autoencoders/distributed_vae_executor.py:187.
    """
    size, ranks = layout.vae_patch_parallel_size, layout.world_size
    if size > 1 and not support.patched_vae:
        return f"vae_patch_parallel_size={size} is ignored by {support.family}: {PLAIN_VAE}"
    if size <= ranks:
        return None
    return f"vae_patch_parallel_size={size} is more than the {ranks} ranks; use {ranks} or less"


def guidance_problem(support: Support, layout: Parallelism, sampling: Sampling) -> str | None:
    """CFG-parallel needs two branches; without them the engine warns and one rank idles.

    models/qwen_image/cfg_parallel.py:131 and :attr:`Support.guidance_source`.
    """
    if layout.cfg_parallel_size == 1 or not support.guidance:
        return None
    for name in (support.guidance, *([SECOND] if sampling.guidance_scale_2 is not None else [])):
        scale = getattr(sampling, name)
        if not scale or scale <= 1 or sampling.negative_prompt is None:
            return (
                f"cfg_parallel_size=2 splits two branches, but {name}={scale} with "
                f"negative_prompt={sampling.negative_prompt!r} has one; set {name} above 1 "
                "and a negative_prompt, or launch with cfg_parallel_size=1"
            )
    return None


def ring_problem(layout: Parallelism, *, on_cpu: bool) -> str | None:
    """The ring calls CUDA kernels; attention/backends/ring/ring_kernels.py:107."""
    if layout.ring_degree == 1 or not on_cpu:
        return None
    return f"ring_degree={layout.ring_degree} runs CUDA kernels; on CPU use ulysses_degree"


def sequence_problem(support: Support, layout: Parallelism, tokens: int) -> str | None:
    """Ranks of a sequence get equal parts; hooks/sequence_parallel.py:389 and 482.

    Args:
        support: The family's.
        layout: What is asked for.
        tokens: Of the latent picture or video, text left out.
    """
    ranks = layout.ulysses_degree * layout.ring_degree
    if ranks == 1 or support.sequence == "none":
        return None
    if support.sequence == "whole":
        # Text and picture are each padded to this multiple, so their sum divides by its divisors.
        each = support.joined_multiple
        if each % ranks == 0:
            return None
        return (
            f"{ranks} sequence ranks: {support.family} shards text and picture in multiples of "
            f"{each} tokens, so whether they divide hangs on the prompt; use a divisor of {each}"
        )
    if tokens % ranks == 0 or layout.ring_degree == 1:
        return None
    return (
        f"ring_degree={layout.ring_degree}: {tokens} tokens do not divide among {ranks} sequence "
        "ranks, and ring attention takes no mask for the padding; use ulysses_degree alone, or "
        "another height and width"
    )


def steps_problem(family: Family, spec: LaunchSpec) -> str | None:
    """Step execution is for pipelines that can be entered at any step."""
    if not spec.step_execution or family.name in STEPWISE:
        return None
    return (
        f"step_execution=True: vLLM-Omni 0.30.0 steps {', '.join(STEPWISE)}, "
        f"not {family.name}; use step_execution=False"
    )


def device_problem(
    layout: Parallelism, here: int, fits: Iterable[str], seen: str = ""
) -> str | None:
    """More ranks than there are devices.

    Args:
        layout: What is asked for.
        here: How many there are.
        fits: Descriptions of layouts to take instead.
        seen: What is needed and there, if not GPUs.
    """
    needed = layout.world_size
    if needed <= here:
        return None
    counts = seen or f"{needed} GPUs and {here} are here"
    return f"needs {counts}; these fit: " + ", or ".join(fits)
