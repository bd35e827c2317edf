"""What a model does along another run's latents: velocities by step, outputs by layer. No torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from workbench import store
from workbench.audits import Audit
from workbench.spec import Spec
from workbench.specs import LaunchSpec, Sampling

VELOCITIES, LAYERS = "velocities", "layers"  # kinds of artefacts


class FollowSpec(Spec):
    """A launch, led along the trajectories of a generation set."""

    launch: LaunchSpec
    along: str
    """Key of the generation set."""
    pairs: tuple[tuple[str, int], ...] = Field(min_length=1)
    """(prompt, seed) of each of its generations that is followed."""
    sampling: Sampling
    repeat: int = Field(0, ge=0)


class LayersSpec(FollowSpec):
    """The same for one pair, with the inputs and outputs of every linear kept."""

    rows: int = Field(16, ge=1)
    """Inputs kept of each linear and step."""
    steps: tuple[int, ...] = Field(min_length=1)
    """Steps that are kept, from 1."""


@dataclass(frozen=True, kw_only=True)
class Velocity:
    """What the model predicted along one trajectory."""

    folder: Path
    prompt: str
    seed: int

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """``velocities`` float32 [steps, ...] and ``timesteps`` float64 [steps]."""
        from safetensors.numpy import load_file

        return load_file(self.folder / "velocities.safetensors")


@dataclass(frozen=True, kw_only=True)
class Followed:
    """A model's predictions along the trajectories of a generation set."""

    path: Path
    spec: FollowSpec
    audit: Audit
    items: tuple[Velocity, ...]
    provenance: dict[str, Any] = field(repr=False)

    @classmethod
    def load(cls, folder: Path) -> Followed:
        """Read a folder of the store."""
        manifest = store.read(folder)
        spec = FollowSpec(**manifest["spec"])
        return cls(
            path=folder,
            spec=spec,
            audit=Audit.from_json(manifest["audit"]),
            items=tuple(
                Velocity(folder=folder / name, prompt=prompt, seed=seed)
                for name, (prompt, seed) in zip(manifest["items"], spec.pairs, strict=True)
            ),
            provenance=manifest["provenance"],
        )

    @property
    def precision(self) -> str:
        """Name for tables: BF16, FP8, INT8, W4A16, ..."""
        return self.spec.launch.precision

    def __iter__(self) -> Iterator[Velocity]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, kw_only=True)
class LayerRecording:
    """Inputs and outputs of every linear of the reference at some steps of one trajectory."""

    path: Path
    spec: LayersSpec
    timesteps: dict[int, float]
    """Step -> timestep."""
    linears: tuple[str, ...]
    """In the order of the network."""
    provenance: dict[str, Any] = field(repr=False)

    @classmethod
    def load(cls, folder: Path) -> LayerRecording:
        """Read a folder of the store."""
        manifest = store.read(folder)
        return cls(
            path=folder,
            spec=LayersSpec(**manifest["spec"]),
            timesteps={int(step): value for step, value in manifest["timesteps"].items()},
            linears=tuple(manifest["linears"]),
            provenance=manifest["provenance"],
        )

    @property
    def file(self) -> Path:
        """Rows by ``NAME|STEP|input`` and ``NAME|STEP|output``."""
        return self.path / "layers.safetensors"
