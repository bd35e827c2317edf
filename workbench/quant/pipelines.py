"""The 16-bit pipeline in diffusers, run on the user's prompts; any failed call ends the work."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from tqdm import tqdm

from workbench import bf16
from workbench.errors import QuantizationFailed
from workbench.quant.calls import call_arguments, first_frames
from workbench.recipes import Calibration
from workbench.torchvision_ops import define_missing
from workbench.wan_first_frames import image_to_video
from workbench.wan_prompts import clean_alike
from workbench.zoo.families import family_of
from workbench.zoo.weights import weight_bytes

LOG = logging.getLogger(__name__)
_ROOM = 1.3
"""Memory of a run over that of the weights, for activations."""


class Clock:
    """Where in the calibration a run is: which prompt, and which denoising step of it."""

    def __init__(self) -> None:
        """At the first step of the first prompt, with nobody to tell."""
        self.prompt = 0
        self.step = 0
        self.listeners: list[Callable[[int, int, float], None]] = []
        """Called after each step with (prompt, step, the scheduler's timestep)."""

    def watch(self, scheduler: Any) -> None:
        """Count the steps of a scheduler from now on."""
        take = scheduler.step

        def step(output: Any, timestep: Any, *arguments: Any, **options: Any) -> Any:
            for listener in self.listeners:
                listener(self.prompt, self.step, float(timestep))
            self.step += 1
            return take(output, timestep, *arguments, **options)

        scheduler.step = step

    def start(self, prompt: int) -> None:
        """A new prompt begins."""
        self.prompt, self.step = prompt, 0


def load_pipeline(source: Path, *, trust: bool = False) -> Any:
    """A pipeline in bfloat16 on the GPU, if there is one and it fits; else moved part by part.

    Raises:
        QuantizationFailed: diffusers cannot load it.
    """
    define_missing()
    bf16.register()
    clean_alike()
    from diffusers import DiffusionPipeline

    try:
        pipeline = DiffusionPipeline.from_pretrained(
            source, dtype=torch.bfloat16, trust_remote_code=trust, use_safetensors=True
        )
    except (OSError, ValueError, RuntimeError, TypeError, AttributeError, ImportError) as error:
        raise QuantizationFailed(
            f"diffusers cannot load {source} for calibration ({type(error).__name__}: {error})"
        ) from error
    pipeline.set_progress_bar_config(disable=True)
    if torch.cuda.is_available():
        _place(pipeline, sum(weight_bytes(source).values()))
    return pipeline


def _place(pipeline: Any, needed: int) -> None:
    free, _ = torch.cuda.mem_get_info()
    if _ROOM * needed < free:
        pipeline.to("cuda")
    else:
        LOG.info("%.0f GB of weights, %.0f GB free: parts go to the GPU in turn", needed, free)
        pipeline.enable_model_cpu_offload()


def run_prompts(pipeline: Any, source: Path, calibration: Calibration, clock: Clock) -> None:
    """Draw every prompt once, from its first frame if it has one, without decoding.

    Args:
        pipeline: From :func:`load_pipeline`.
        source: Its folder.
        calibration: Prompts, size, steps, guidance and seed; prompt n takes seed + n.
        clock: Told where the run is.

    Raises:
        QuantizationFailed: one call failed; names the prompt.
        SpecError: a first frame that has changed, or does not fit.
    """
    arguments = call_arguments(source, calibration, family_of(source).guidance)
    images = first_frames(source, calibration)
    clock.watch(pipeline.scheduler)
    prompts = enumerate(tqdm(calibration.prompts, desc="calibration", unit="prompt"))
    for index, prompt in prompts:
        clock.start(index)
        image = {} if images[index] is None else {"image": images[index]}
        draw = image_to_video(pipeline) if image else pipeline
        generator = torch.Generator("cpu").manual_seed(calibration.seed + index)
        try:
            with torch.no_grad():
                draw(
                    prompt=prompt,
                    num_inference_steps=calibration.num_inference_steps,
                    generator=generator,
                    **image,
                    **arguments,
                )
        except Exception as error:
            raise QuantizationFailed(
                f"calibration prompt {index + 1} of {len(calibration.prompts)}, {prompt!r}, "
                f"failed in the pipeline ({type(error).__name__}: {error}); "
                f"it was called with {arguments}"
            ) from error


def linear_modules(model: nn.Module) -> dict[str, nn.Linear]:
    """The linears of a transformer by diffusers' names, which are those of its files."""
    return {name: one for name, one in model.named_modules() if isinstance(one, nn.Linear)}
