"""What is trained and how: the shapes of the video networks and every number of the recipe."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.zoo.training.recipe import Schedule, Sizes

FRAMES, SIDE, FPS = 9, 128, 8
"""A clip: nine frames of 128 x 128 pixels, shown at eight a second."""


@dataclass(frozen=True, kw_only=True)
class VideoArchitecture(Sizes):
    """Sizes of VAE, transformer and text encoder; the defaults are the shipped model."""

    layers: int = 10
    head_width: int = 128
    text_heads: int = 2
    frames: int = FRAMES
    side: int = SIDE

    @property
    def width(self) -> int:
        """Width of the transformer's stream; inside its feed-forward it is four times as wide."""
        return self.heads * self.head_width

    @property
    def latent_grid(self) -> tuple[int, int, int]:
        """Latent frames, rows and columns: one frame, then one for each four; 8 x smaller."""
        return (1 + (self.frames - 1) // 4, self.side // 8, self.side // 8)

    @property
    def token_grid(self) -> tuple[int, int, int]:
        """Tokens of the transformer, one for 2 x 2 latents of a frame."""
        frames, rows, columns = self.latent_grid
        return (frames, rows // 2, columns // 2)


@dataclass(frozen=True, kw_only=True)
class VideoRecipe(Schedule):
    """Step counts, batch sizes and rates; the defaults made the shipped model."""

    variants: int = 96  # pictures per background
    # VAE, from the picture VAE's weights
    vae_steps: int = 1_000
    vae_clips: int = 24
    vae_muon_rate: float = 6e-4
    vae_rate: float = 4e-4
    vae_warmup: int = 50
    vae_ema: float = 0.995
    latent_noise: float = 0.05  # upper end, relative to the latents' spread
    # decoder polish
    polish_steps: int = 400
    # transformer and text encoder
    dit_steps: int = 14_000
    image_share: float = 0.4  # samples whose first latent frame is given
    pool: int = 32_768  # encoded clips held at a time
    refresh: int = 64  # of them replaced ...
    refresh_every: int = 16  # ... after so many steps
    # measuring
    measured: int = 512  # clips for reconstruction PSNR
    judge_clips: int = 128  # seen in each step of the judge
    sampling_steps: int = 20
    guidance: float = 4.0

    def smoke(self) -> VideoRecipe:
        """Every code path at full batch size, a few steps each: finds errors, not quality."""
        return replace(
            self, variants=2, vae_steps=20, polish_steps=20, dit_steps=40, pool=512, measured=32,
            judge_steps=20, judged=16,
        )  # fmt: skip
