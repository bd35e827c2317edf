"""Plain diffusers with the same weights: the oracle, and one kind of noise floor."""

from __future__ import annotations

import time
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.audits import Audit
from workbench.errors import SpecError
from workbench.records import GenerationSet
from workbench.serve.audit import audit
from workbench.serve.drawing import Drawn, populate, trajectory_of
from workbench.serve.media import frames_of
from workbench.serve.requests import Asked
from workbench.specs import LaunchSpec, Sampling
from workbench.torchvision_ops import define_missing
from workbench.wan_first_frames import image_to_video
from workbench.wan_prompts import clean_alike
from workbench.zoo.families import family_of

if TYPE_CHECKING:
    from PIL import Image

ATTENTION = "diffusers"


class PlainDiffusers:
    """A pipeline of diffusers, loaded once. Initial noise comes from the CPU, as in the engine."""

    def __init__(self, spec: LaunchSpec, folder: Path) -> None:
        if spec.stored is not None:
            raise SpecError(
                f"{folder} is {spec.stored}, and plain diffusers runs 16-bit weights; "
                "give the model that it was made from"
            )
        define_missing()
        from workbench import bf16  # on use, as it takes torch

        bf16.register()
        if family_of(folder).draws_videos:
            clean_alike()
        import torch
        from diffusers import DiffusionPipeline

        from workbench.serve.recorder import Recorder

        self.spec, self.folder, self.family = spec, folder, family_of(folder)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        began = time.perf_counter()
        pipeline = DiffusionPipeline.from_pretrained(folder, dtype=getattr(torch, spec.dtype))
        self._pipeline = pipeline.to(self._device)
        self._pipeline.set_progress_bar_config(disable=True)
        self._recorder = Recorder(self._pipeline)
        self.load_s = time.perf_counter() - began
        self.audit: Audit = audit(spec, {}, self._census())

    def populate(self, asked: Asked, *, force: bool = False) -> GenerationSet:
        """Every prompt at every seed; finished pictures are kept."""
        draw = partial(self._draw, asked.spec.sampling)
        return populate(asked, draw, self, force=force)

    def release_memory(self) -> None:
        """Let torch's allocator go of what it keeps of earlier requests."""
        import torch

        torch.cuda.empty_cache()

    def _draw(self, sampling: Sampling, prompt: str, seed: int, image: Image.Image | None) -> Drawn:
        import torch

        fields = sampling.model_dump(exclude_none=True, exclude={"fps"})
        if image is not None:
            fields["image"] = image
        generator = torch.Generator("cpu").manual_seed(seed)
        self._reset_peak()
        self._recorder.start()
        began = time.perf_counter()
        pipeline = self._pipeline if image is None else self._from_image
        output = pipeline(prompt=prompt, generator=generator, **fields)
        elapsed_s = time.perf_counter() - began
        return Drawn(
            frames=frames_of(output[0][0]),
            trajectory=trajectory_of(self._recorder.finish(), self.family.name),
            elapsed_s=elapsed_s,
            stage_durations_s={},
            peak_memory_bytes=self._peak_bytes(),
        )

    @cached_property
    def _from_image(self) -> Any:
        return image_to_video(self._pipeline)

    def _reset_peak(self) -> None:
        import torch

        from workbench.serve.cpu import memory

        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        else:
            memory.reset_peak()
        self._resident = memory.resident_bytes()

    def _peak_bytes(self) -> int:
        """As in docs/architecture.md: reserved on CUDA; weights and the rise in use on CPU."""
        import torch

        from workbench.serve.cpu import memory

        if self._device.type == "cuda":
            return torch.cuda.max_memory_reserved()
        rise = memory.high_water_mark() - self._resident
        return sum(self.audit.weight_bytes.values()) + max(0, rise)

    def _census(self) -> dict[str, Any]:
        import torch

        from workbench.serve import modules

        components = {
            name: part
            for name, part in self._pipeline.components.items()
            if isinstance(part, torch.nn.Module)
        }
        holder = torch.nn.ModuleDict(components)
        return {
            "linears": [
                {"name": name, **modules.facts(module)} for name, module in modules.linears(holder)
            ],
            "attention_backend": ATTENTION,
            "weight_bytes": modules.weight_bytes(holder),
            "world_sizes": {"world": 1},
            "platform": self._device.type,
        }
