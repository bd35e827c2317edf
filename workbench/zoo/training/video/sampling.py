"""The networks joined as the pipeline joins them: UniPC steps with guidance, first frame or not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from workbench.zoo.training.artefacts import load_weights
from workbench.zoo.training.optim import mixed_precision
from workbench.zoo.training.video.codec import CHUNK, ClipCodec
from workbench.zoo.training.video.dit_net import Transformer
from workbench.zoo.training.video.export import scheduler
from workbench.zoo.training.video.recipe import VideoArchitecture
from workbench.zoo.training.video.text_net import TextEncoder


def pipeline_time(t: Tensor) -> Tensor:
    """T in [0, 1] as the scheduler hands it on: 1000 t without its fraction, divided again."""
    return (1_000 * t).floor() / 1_000


@dataclass(frozen=True)
class ClipModel:
    """The trained networks on one device."""

    codec: ClipCodec
    transformer: Transformer
    text_encoder: TextEncoder

    @classmethod
    def load(
        cls, folder: Path, codec: ClipCodec, shape: VideoArchitecture, length: int
    ) -> ClipModel:
        """Read a folder of the dit command; `length` is that of captions in the corpus."""
        text = load_weights(folder / "text_encoder.safetensors")
        made = networks(shape, len(text["shared.weight"]), length, codec.mean.device)
        for network, state in zip(
            made, (text, load_weights(folder / "transformer.safetensors")), strict=True
        ):
            network.load_state_dict(state)
        return cls(codec, made[1], made[0])

    def velocity(self, latents: Tensor, tokens: Tensor, lengths: Tensor, t: Tensor) -> Tensor:
        """Predicted noise minus clip.

        Args:
            latents: [B, z, F, H, W].
            tokens: Ids [B, L].
            lengths: Tokens before the padding, [B].
            t: Noise level of each latent frame, [B, F] in [0, 1].
        """
        with mixed_precision(latents.device):
            return self.transformer(latents, self.text_encoder(tokens, lengths), t).float()

    @torch.no_grad()
    def sample(
        self, prompt: tuple[Tensor, Tensor], negative: tuple[Tensor, Tensor], *, steps: int = 20,
        guidance: float = 4.0, seed: int = 0, first: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Draw clips for (ids [B, L], lengths [B]).

        Args:
            prompt: What to draw.
            negative: What guidance points away from.
            steps: Denoising steps.
            guidance: `guidance_scale`.
            seed: Of the noise.
            first: Latents of a given first frame, [B, z, 1, H, W]; it is kept, at noise level 0.

        Returns:
            [B, 3, T, 8 H, 8 W] in [-1, 1].
        """
        count, device = len(prompt[0]), prompt[0].device
        shape = (count, *self.latent_shape)
        latents = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)
        loud = torch.ones(count, shape[2], device=device)
        loud[:, 0] = first is None
        given = latents if first is None else first.expand_as(latents)
        keep, schedule = loud.view(count, 1, -1, 1, 1), scheduler()
        schedule.set_timesteps(steps, device=device)
        for time in schedule.timesteps:
            seen = torch.lerp(given, latents, keep)
            t = loud * time / 1_000
            wanted, unwanted = (self.velocity(seen, *text, t) for text in (prompt, negative))
            guided = unwanted + guidance * (wanted - unwanted)
            latents = schedule.step(guided, time, latents, return_dict=False)[0]
        latents = torch.lerp(given, latents, keep)
        return torch.cat([self.codec.decode(chunk) for chunk in latents.split(CHUNK)])

    @property
    def latent_shape(self) -> tuple[int, int, int, int]:
        """[z, F, H, W] of the clips that the transformer was made for."""
        frames, rows, columns = self.transformer.grid
        return (self.codec.mean.numel(), frames, 2 * rows, 2 * columns)


def networks(
    shape: VideoArchitecture, rows: int, length: int, device: torch.device
) -> tuple[TextEncoder, Transformer]:
    """New text encoder (`rows` of token embedding) and transformer (`length` caption tokens)."""
    text_encoder = TextEncoder(shape, rows, length)
    return text_encoder.to(device), Transformer(shape, text_length=length).to(device)
