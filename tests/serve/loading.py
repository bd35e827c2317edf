"""A checkpoint in the engine's own worker, and one forward of its transformers; no request loop.

The worker reads the folder as the engine does: its config, its loader, its layers, its kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from workbench.torchvision_ops import define_missing

define_missing()

PROMPT = "a teapot on a wooden table"
SIZE = {"height": 128, "width": 128, "num_inference_steps": 2, "output_type": "latent"}
VIDEO = {"num_frames": 5}
Calls = dict[str, dict[str, Any]]


@contextmanager
def worker_of(folder: Path) -> Iterator[Any]:
    """The worker with its model loaded, stopped at the end."""
    from vllm.utils.network_utils import get_open_port
    from vllm_omni.diffusion.data import OmniDiffusionConfig
    from vllm_omni.diffusion.worker.diffusion_worker import DiffusionWorker
    from vllm_omni.plugins import load_omni_general_plugins

    load_omni_general_plugins()
    config = OmniDiffusionConfig(
        model=str(folder), dtype=torch.bfloat16, master_port=get_open_port(), enforce_eager=True
    )
    config.enrich_config()
    worker = DiffusionWorker(local_rank=0, rank=0, od_config=config)
    try:
        yield worker
    finally:
        worker.shutdown()


def velocities(worker: Any, calls: Calls) -> dict[str, torch.Tensor]:
    """Component -> what its transformer predicts from the recorded inputs, float32."""
    from vllm.config import set_current_vllm_config
    from vllm_omni.diffusion.forward_context import set_forward_context

    pipeline = worker.model_runner.pipeline
    with (
        torch.inference_mode(),
        set_forward_context(vllm_config=worker.vllm_config, omni_diffusion_config=worker.od_config),
        set_current_vllm_config(worker.vllm_config),
    ):
        return {
            name: getattr(pipeline, name)(**known(getattr(pipeline, name), call))[0].float()
            for name, call in calls.items()
        }


def known(module: torch.nn.Module, call: dict[str, Any]) -> dict[str, Any]:
    import inspect

    parameters = inspect.signature(module.forward).parameters
    extra = {"return_dict": False, "txt_seq_lens": [call["encoder_hidden_states"].shape[1]]}
    return {k: v for k, v in {**extra, **call}.items() if k in parameters}


def first_calls(pipeline: Any) -> tuple[Calls, dict[str, torch.Tensor]]:
    """What plain diffusers hands to each transformer in the first step of a real prompt.

    And what the transformer makes of it, float32; a second expert that is not asked in that step
    gets the inputs of the first.
    """
    video = VIDEO if "Wan" in type(pipeline).__name__ else {}
    names = [n for n in ("transformer", "transformer_2") if getattr(pipeline, n, None) is not None]
    calls: Calls = {}
    with torch.inference_mode():
        hook = pipeline.transformer.register_forward_pre_hook(
            lambda module, args, kwargs: calls.setdefault("transformer", kwargs) and None,
            with_kwargs=True,
        )
        pipeline.set_progress_bar_config(disable=True)
        pipeline(prompt=PROMPT, generator=torch.Generator().manual_seed(0), **SIZE, **video)
        hook.remove()
        calls = dict.fromkeys(names, calls["transformer"])
        plain = {
            name: getattr(pipeline, name)(**known(getattr(pipeline, name), call))[0].float()
            for name, call in calls.items()
        }
    return calls, plain


def relative(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(one - other) / torch.linalg.vector_norm(other))
