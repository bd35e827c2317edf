"""The latents on the way to a picture or a video."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workbench import store


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """Latents of one generation in the pipeline's own layout."""

    latents: np.ndarray
    """float32 [steps + 1, ...]: the initial noise, then one per denoising step."""
    timesteps: np.ndarray
    """float64 [steps]: the scheduler's timestep at which each step was taken."""
    experts: tuple[str, ...] | None = None
    """The component that ran at each step, such as ``transformer_2``; None where it was not
    recorded."""

    def save(self, file: Path) -> None:
        """Write all of it to one safetensors file, the experts into its metadata."""
        from safetensors.numpy import save

        arrays = {"latents": self.latents, "timesteps": self.timesteps}
        notes = {"experts": json.dumps(self.experts)} if self.experts is not None else None
        store.write_bytes(file, save(arrays, metadata=notes))

    @classmethod
    def load(cls, file: Path) -> Trajectory:
        """Read what :meth:`save` wrote."""
        from safetensors import safe_open

        with safe_open(file, framework="numpy") as content:
            experts = (content.metadata() or {}).get("experts")
            return cls(
                latents=content.get_tensor("latents"),
                timesteps=content.get_tensor("timesteps"),
                experts=tuple(json.loads(experts)) if experts else None,
            )
