"""vLLM-Omni itself: start, one request, one call into the workers, close."""

from __future__ import annotations

import gc
import json
from collections.abc import Sequence
from multiprocessing import active_children
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.engine_logs import plain_streams, quiet
from workbench.provenance import gpu_bytes_used
from workbench.specs import LaunchSpec, Sampling
from workbench.torchvision_ops import define_missing

if TYPE_CHECKING:
    from PIL import Image

EXTENSION = "workbench.serve.tracing.WorkerTools"
_unused: list[int] = []
"""Bytes in use on each GPU before this process had a CUDA context; empty until that is known."""


def start(folder: Path, spec: LaunchSpec) -> tuple[Any, list[BaseProcess]]:
    """A running ``Omni`` for a pipeline folder, and its worker processes; none of an inline one.

    Raises:
        Exception: whatever the engine raises.
    """
    define_missing()
    quiet()
    from vllm_omni import Omni

    others = _workers()
    gc.collect()
    gc.freeze()  # it collects ten times while it loads, and each walks every library's objects
    try:
        with plain_streams():
            engine = Omni(**engine_arguments(folder, spec))
        return engine, [one for one in _workers() if one not in others]
    except BaseException:
        gc.unfreeze()
        _kill([one for one in _workers() if one not in others])
        raise


def engine_arguments(folder: Path, spec: LaunchSpec) -> dict[str, Any]:
    """Keyword arguments of ``Omni``; unset ones are left to the engine."""
    optional = {
        "quantization": spec.quantization,
        "diffusion_attention_config": spec.attention_backend
        and {"default": spec.attention_backend},
        **own_schedule(folder),
    }
    return {
        "model": str(folder),
        "dtype": spec.dtype,
        "parallel_config": spec.parallelism.model_dump(),
        "step_execution": spec.step_execution,
        "max_num_seqs": spec.max_num_seqs,
        "request_batch_max_wait_ms": spec.request_batch_max_wait_ms,
        "enforce_eager": spec.enforce_eager,
        "trust_remote_code": spec.model.trust_remote_code,
        # "mp" is a worker process also for one device; unset, one device is served inline
        **({"distributed_executor_backend": "mp"} if spec.isolation == "process" else {}),
        "worker_extension_cls": EXTENSION,
        **{name: value for name, value in optional.items() if value is not None},
    }


def own_schedule(folder: Path) -> dict[str, float]:
    """``boundary_ratio`` of a pipeline with two experts, which vLLM-Omni reads from no file.

    It takes 0.875 unless told (models/wan2_2/pipeline_wan2_2_i2v.py:543), and Wan2.2-I2V-A14B was
    trained for 0.9.
    """
    index = folder / "model_index.json"
    ratio = json.loads(index.read_text()).get("boundary_ratio") if index.is_file() else None
    return {} if ratio is None else {"boundary_ratio": ratio}


def close(omni: Any, started: Sequence[BaseProcess], *, abandoned: bool) -> None:
    """End an engine and its worker processes.

    Args:
        omni: What :func:`start` gave.
        started: Its worker processes.
        abandoned: Whether something may be running in it. It would first wait for that to end, for
            as long as 30 s, and then leave the processes to it
            (vllm_omni/diffusion/diffusion_engine.py:1567).
    """
    if abandoned:
        _kill(started)
    omni.close()
    _kill(started)


def _workers() -> list[BaseProcess]:
    return [one for one in active_children() if one.name.startswith("DiffusionWorker")]


def _kill(processes: Sequence[BaseProcess]) -> None:
    for process in processes:
        process.kill()
    for process in processes:
        process.join()


def give_memory_back() -> None:
    """After a close: free what only the garbage collector finds, and what is kept for later."""
    gc.unfreeze()
    gc.collect()
    import torch

    from workbench.serve.cpu import memory

    memory.trim()
    if torch.cuda.is_initialized():
        torch._C._cuda_clearCublasWorkspaces()  # 32 MiB a stream on Hopper, kept until asked for
        torch.cuda.empty_cache()


def note_unused() -> None:
    """Keep what each GPU holds while this process has no CUDA context: see :func:`used_before`."""
    import torch

    if not torch.cuda.is_initialized():
        _unused[:] = gpu_bytes_used()


def used_before(spec: LaunchSpec) -> list[int]:
    """Bytes in use on each GPU before a launch, without the CUDA context of an inline worker.

    An inline worker runs in this process, whose context (0.8 GiB) outlives an engine. So that each
    launch counts it, not only the first, this is what was in use before the process had one, and
    what its allocator holds now. Where CUDA was in use before :func:`note_unused` or a launch, the
    context cannot be told and is not counted.
    """
    import torch

    note_unused()
    now = gpu_bytes_used()
    if not (_inline(spec) and torch.cuda.is_initialized() and _unused):
        return now
    held = [torch.cuda.memory_reserved(number) for number in range(len(_unused))]
    return [before + own for before, own in zip(_unused, held, strict=True)]


def _inline(spec: LaunchSpec) -> bool:
    return spec.parallelism.world_size == 1 and spec.isolation == "inline"


def held_bytes(spec: LaunchSpec) -> int:
    """GPU memory that this process holds already and an inline worker would count as its own."""
    import torch

    return torch.cuda.memory_reserved() if _inline(spec) and torch.cuda.is_available() else 0


def asked(
    prompt: str, seed: int, sampling: Sampling, image: Image.Image | None = None
) -> tuple[dict[str, Any], Any]:
    """The prompt and the parameters of one request, as the engine takes them."""
    from vllm_omni.inputs.data import OmniDiffusionSamplingParams

    fields = sampling.model_dump(exclude={"negative_prompt"}, exclude_none=True)
    text: dict[str, Any] = {"prompt": prompt}
    if image is not None:
        text["multi_modal_data"] = {"image": image}
    if sampling.negative_prompt is not None:
        text["negative_prompt"] = sampling.negative_prompt
    return text, OmniDiffusionSamplingParams(**fields, seed=seed, generator_device="cpu")


def request(
    omni: Any, prompt: str, seed: int, sampling: Sampling, image: Image.Image | None = None
) -> Any:
    """One picture or video: the engine's ``OmniRequestOutput``."""
    (output,) = omni.generate(*asked(prompt, seed, sampling, image), use_tqdm=False)
    return output


def call(omni: Any, method: str, *arguments: Any) -> Any:
    """Run a method of the worker extension on every rank; the answer of rank 0."""
    answer = omni.engine.collective_rpc(method, args=arguments)
    while isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    return answer
