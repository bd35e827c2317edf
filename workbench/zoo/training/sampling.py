"""The networks joined as the pipeline joins them: Euler steps with true guidance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from workbench.zoo.training.artefacts import load_weights
from workbench.zoo.training.codec import Codec
from workbench.zoo.training.dit_net import Transformer
from workbench.zoo.training.optim import mixed_precision
from workbench.zoo.training.pool import text_mask
from workbench.zoo.training.recipe import Architecture
from workbench.zoo.training.text_net import TextEncoder
from workbench.zoo.training.tokenizer import PREFIX_TOKENS

LATENT_SIDE = 16
"""Packed tokens along a side of the 256-pixel picture."""

SCHEDULER = {
    "base_image_seq_len": 256, "base_shift": 0.5, "invert_sigmas": False, "max_image_seq_len": 8192,
    "max_shift": 0.9, "num_train_timesteps": 1000, "shift": 1.0, "shift_terminal": 0.02,
    "stochastic_sampling": False, "time_shift_type": "exponential", "use_beta_sigmas": False,
    "use_dynamic_shifting": True, "use_exponential_sigmas": False, "use_karras_sigmas": False,
}  # fmt: skip
"""The scheduler configuration published with Qwen-Image."""


def sigmas(steps: int, tokens: int = LATENT_SIDE**2) -> list[float]:
    """Noise levels of the pipeline's schedule, steps + 1 of them from 1 to 0.

    Exponential shift by exp(mu), mu linear in the token count, then stretched so that the last
    step starts at `shift_terminal`.
    """
    span = SCHEDULER["max_image_seq_len"] - SCHEDULER["base_image_seq_len"]
    slope = (SCHEDULER["max_shift"] - SCHEDULER["base_shift"]) / span
    mu = SCHEDULER["base_shift"] + slope * (tokens - SCHEDULER["base_image_seq_len"])
    even = torch.linspace(1, 1 / steps, steps, dtype=torch.float64)
    shifted = math.exp(mu) / (math.exp(mu) + 1 / even - 1)
    stretch = (1 - shifted[-1]) / (1 - SCHEDULER["shift_terminal"])
    return [*(1 - (1 - shifted) / stretch).tolist(), 0.0]


def pipeline_time(t: Tensor) -> Tensor:
    """T in [0, 1] as the bf16 pipeline hands it on: 1000 t rounded, divided, rounded again."""
    return ((1_000 * t).bfloat16() / 1_000).to(t.dtype)


@dataclass(frozen=True)
class Model:
    """The trained networks on one device."""

    codec: Codec
    transformer: Transformer
    text_encoder: TextEncoder

    @classmethod
    def load(
        cls, folder: Path, vae: Path, shape: Architecture, length: int, device: torch.device
    ) -> Model:
        """Read a folder of the dit command and a VAE file; `length` is that of caption text."""
        text_weights = load_weights(folder / "text_encoder.safetensors")
        rows = len(text_weights["model.language_model.embed_tokens.weight"])
        text_encoder, transformer = networks(shape, rows, length, device)
        text_encoder.load_state_dict(text_weights)
        transformer.load_state_dict(load_weights(folder / "transformer.safetensors"))
        return cls(Codec.load(vae, shape, device), transformer, text_encoder)

    def velocity(self, latents: Tensor, tokens: Tensor, lengths: Tensor, t: Tensor) -> Tensor:
        """Predicted noise minus picture for latents [B, 256, 64], ids [B, L], lengths, t [B]."""
        with mixed_precision(latents.device):
            text = self.text_encoder(tokens)[:, PREFIX_TOKENS:]
            return self.transformer(latents, text, text_mask(lengths, text.shape[1]), t).float()

    @torch.no_grad()
    def sample(
        self, prompt: tuple[Tensor, Tensor], negative: tuple[Tensor, Tensor], *, steps: int = 20,
        guidance: float = 4.0, seed: int = 0,
    ) -> Tensor:  # fmt: skip
        """Draw pictures [B, 3, 256, 256] in [-1, 1] for (ids [B, L], lengths [B]).

        Guidance points away from the negative prompt; the guided velocity is scaled back, token by
        token, to the length of the unguided one.
        """
        count, device = len(prompt[0]), prompt[0].device
        width = self.transformer.img_in.in_features
        generator = torch.Generator().manual_seed(seed)
        latents = torch.randn(count, LATENT_SIDE**2, width, generator=generator).to(device)
        levels = sigmas(steps)
        for level, following in pairwise(levels):
            t = pipeline_time(torch.full((count,), level, device=device))
            wanted, unwanted = (self.velocity(latents, *text, t) for text in (prompt, negative))
            guided = unwanted + guidance * (wanted - unwanted)
            guided = guided * wanted.norm(dim=-1, keepdim=True) / guided.norm(dim=-1, keepdim=True)
            latents = latents + (following - level) * guided
        return torch.cat([self.codec.decode(chunk) for chunk in latents.split(64)])


def networks(
    shape: Architecture, rows: int, length: int, device: torch.device
) -> tuple[TextEncoder, Transformer]:
    """New text encoder (`rows` of token embedding) and transformer (`length` caption tokens)."""
    text_encoder = TextEncoder(shape, rows)
    return text_encoder.to(device), Transformer(shape, side=LATENT_SIDE, text_length=length).to(
        device
    )
