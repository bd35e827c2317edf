"""What is trained and how: the shapes of the three networks and every number of the recipe."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

R = TypeVar("R", bound=Any)  # a frozen dataclass of numbers


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes that the networks of pictures and of clips have in common.

    Every linear inside a block has an input width divisible by 128, so that group-wise 4-bit
    schemes fit everywhere, and two heads let tensor parallelism of two divide it.
    """

    latent_channels: int = 16
    vae_width: int = 32
    vae_mults: tuple[int, ...] = (1, 2, 2, 2)
    vae_temporal: tuple[bool, ...] = (False, True, True)
    heads: int = 2
    text_width: int = 128
    text_layers: int = 2
    text_hidden: int = 256


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Numbers of a recipe that were the same for pictures and for clips."""

    seed: int = 0
    # VAE and its decoder's polish
    kl_weight: float = 2e-4
    polish_noise: float = 0.02
    # transformer and text encoder
    dit_batch: int = 256
    dit_rate: float = 1e-3
    dit_muon_rate: float = 2e-3
    dit_decay: float = 0.01
    dit_muon_decay: float = 0.02
    dit_warmup: int = 200
    dit_ema: float = 0.9995
    # measuring
    judge_steps: int = 1_500
    judged: int = 192  # prompts per split


@dataclass(frozen=True, kw_only=True)
class Architecture(Sizes):
    """Sizes of VAE, transformer and text encoder; the defaults are the shipped model."""

    layers: int = 5
    rope_axes: tuple[int, int, int] = (16, 56, 56)

    @property
    def head_width(self) -> int:
        """Width of one attention head of the transformer: the rope axes cover it exactly."""
        return sum(self.rope_axes)

    @property
    def width(self) -> int:
        """Width of the transformer's two streams."""
        return self.heads * self.head_width


@dataclass(frozen=True, kw_only=True)
class Recipe(Schedule):
    """Step counts, batch sizes and rates; the defaults made the shipped model.

    Step counts are fixed rather than a time budget; what a GPU computes still varies a little
    from run to run, so the weights are shipped.
    """

    # VAE
    vae_steps: int = 2_450
    vae_crop_share: float = 0.6  # first part on quadrants of rolled pictures
    vae_pictures: int = 96
    vae_rate: float = 1.5e-3
    vae_decay: float = 1e-3
    vae_warmup: int = 100
    vae_ema: float = 0.998
    latent_noise: float = 0.1  # upper end, relative to the latents' spread
    # decoder polish
    polish_steps: int = 1_000
    polish_muon_rate: float = 1e-3
    polish_rate: float = 5e-4
    # transformer and text encoder
    dit_steps: int = 20_800
    pool: int = 65_536  # encoded pictures held at a time
    refresh: int = 128  # of them replaced ...
    refresh_every: int = 8  # ... after so many steps
    # measuring
    measured: int = 1_024  # pictures for reconstruction PSNR

    def smoke(self) -> Recipe:
        """Every code path at full batch size, a few steps each: finds errors, not quality."""
        return replace(
            self,
            vae_steps=20,
            polish_steps=20,
            dit_steps=40,
            pool=1_024,
            measured=96,
            judge_steps=20,
            judged=16,
        )


def changed(recipe: R, settings: Iterable[str]) -> R:
    """A recipe with some of its numbers replaced, as the commands' ``--set`` says.

    Args:
        recipe: To begin with.
        settings: Of the form FIELD=NUMBER.

    Raises:
        ValueError: a field that the recipe does not have.
    """
    changes = dict(item.split("=") for item in settings)
    if unknown := changes.keys() - vars(recipe).keys():
        raise ValueError(f"--set {sorted(unknown)} is unknown; there are {sorted(vars(recipe))}")
    typed = {name: type(getattr(recipe, name))(value) for name, value in changes.items()}
    return replace(recipe, **typed)
