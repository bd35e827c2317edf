"""Train the picture VAE, then polish its decoder with the latent space held still."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from workbench.zoo.training.artefacts import Log, save_weights, write_sheet
from workbench.zoo.training.codec import (
    CHUNK,
    Codec,
    channels_last,
    config,
    latents_of,
    on_device,
    psnr,
)
from workbench.zoo.training.corpus import Corpus
from workbench.zoo.training.optim import Optimizer, Rates, mixed_precision
from workbench.zoo.training.recipe import Architecture, Recipe
from workbench.zoo.training.vae_net import PictureVAE, inflate

SAVE_EVERY = 60.0  # seconds


def quadrants(pictures: Tensor) -> Tensor:
    """[B, C, H, W], rolled by one random offset, cut into [4B, C, H/2, W/2]."""
    side = pictures.shape[-1]
    rolled = pictures.roll(tuple(torch.randint(side, (2,)).tolist()), (2, 3))
    return (
        rolled.unflatten(3, (2, -1)).unflatten(2, (2, -1)).permute(0, 2, 4, 1, 3, 5).flatten(0, 2)
    )


def picture_loss(made: Tensor, real: Tensor, mse_weight: float) -> Tensor:
    """L1 + weighted MSE + half the L1 between neighbour differences, which keeps edges sharp."""
    error = made.float() - real
    edges = error.diff(dim=-1).abs().mean() + error.diff(dim=-2).abs().mean()
    return error.abs().mean() + mse_weight * error.square().mean() + 0.5 * edges


def noisy(latents: Tensor, top: float) -> Tensor:
    """Add noise of a random level per picture or clip, 0 to `top` times the latents' spread."""
    lot = torch.rand(len(latents), *[1] * (latents.ndim - 1), device=latents.device)
    level = top * latents.detach().std() * lot
    return latents + level * torch.randn_like(latents)


def training_loss(vae: PictureVAE, pictures: Tensor, recipe: Recipe) -> Tensor:
    """Reconstruction at full and half scale, plus a pull of the latents towards unit size.

    Half scale decodes 2x2-averaged latents into the 2x2-averaged picture, which keeps latents
    local. The log-variance is not sampled from; it only learns to name the noise that the decoder
    was trained with.
    """
    mean, log_variance = (moment.float() for moment in vae.encode(pictures))
    latents = noisy(mean, recipe.latent_noise)
    loss = picture_loss(vae.decode(latents), pictures, 0.25)
    half = vae.decode(F.avg_pool2d(latents, 2))
    loss = loss + 0.25 * picture_loss(half, F.avg_pool2d(pictures, 2), 0.25)
    spoken = 2 * torch.log(recipe.latent_noise / 2 * mean.detach().std())
    honesty = (log_variance - spoken).square().mean()
    return loss + recipe.kl_weight * mean.square().mean() / 2 + 1e-4 * honesty


def polish_loss(vae: PictureVAE, pictures: Tensor, recipe: Recipe) -> Tensor:
    """Reconstruction by the decoder alone."""
    latents = noisy(latents_of(vae, pictures), recipe.polish_noise)
    return picture_loss(vae.decode(latents), pictures, 0.5)


class Stage:
    """One run of an optimiser over random pictures, with its loss curve."""

    def __init__(
        self, name: str, vae: nn.Module, rates: Rates, muon: Callable[[str, Tensor], bool]
    ) -> None:
        self.name, self.vae, self.optimizer = name, vae, Optimizer(vae, rates, muon)
        self.curve: list[tuple[int, float]] = []

    def run(
        self,
        batches: Callable[[int], Tensor],
        loss: Callable[[Tensor], Tensor],
        log: Log,
        out: Path,
    ) -> None:
        """Take all steps, report fifty times, save once a minute; end with averaged weights."""
        steps, saved = self.optimizer.rates.steps, log.seconds
        reported = saved
        every = max(1, steps // 50)
        for step in range(steps):
            pictures = batches(step)
            with mixed_precision(pictures.device):
                value = loss(pictures)
            self.optimizer.step(value)
            if step % every == 0 or step == steps - 1:
                self.curve.append((step, round(float(value.detach()), 5)))
                pace = 1e3 * (log.seconds - reported) / min(every, step + 1)
                reported = log.seconds
                log.say(
                    f"{self.name} step {step} of {steps}, loss {self.curve[-1][1]}, "
                    f"{pace:.0f} ms a step"
                )
            if log.seconds - saved > SAVE_EVERY:
                saved = log.seconds
                save_weights(out / "vae.safetensors", inflate(self.optimizer.averaged()))
        self.vae.load_state_dict(self.optimizer.averaged())


def _pictures(corpus: Corpus, count: int, device: torch.device) -> Tensor:
    return channels_last(corpus.pictures(torch.randint(len(corpus), (count,), device=device)))


def _train(
    vae: PictureVAE, corpus: Corpus, recipe: Recipe, log: Log, out: Path, device: torch.device
) -> Stage:
    rates = Rates(
        steps=recipe.vae_steps, rate=recipe.vae_rate, decay=recipe.vae_decay,
        warmup=recipe.vae_warmup, ema=recipe.vae_ema,
    )  # fmt: skip

    def batches(step: int) -> Tensor:
        pictures = _pictures(corpus, recipe.vae_pictures, device)
        on_crops = step < recipe.vae_crop_share * recipe.vae_steps
        return channels_last(quadrants(pictures)) if on_crops else pictures

    stage = Stage("vae", vae, rates, lambda name, weight: False)
    stage.run(batches, lambda pictures: training_loss(vae, pictures, recipe), log, out)
    return stage


def _polish(
    vae: PictureVAE, corpus: Corpus, recipe: Recipe, log: Log, out: Path, device: torch.device
) -> Stage:
    vae.encoder.requires_grad_(False)
    vae.quant_conv.requires_grad_(False)
    rates = Rates(
        steps=recipe.polish_steps,
        rate=recipe.polish_rate,
        muon_rate=recipe.polish_muon_rate,
        ema=recipe.vae_ema,
    )
    stage = Stage(
        "polish", vae, rates, lambda name, weight: name.endswith("weight") and weight.ndim == 4
    )
    stage.run(
        lambda step: _pictures(corpus, recipe.vae_pictures, device),
        lambda pictures: polish_loss(vae, pictures, recipe), log, out,
    )  # fmt: skip
    return stage


def statistics(
    vae: PictureVAE, corpus: Corpus, count: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation per latent channel over random pictures, each [1, z, 1, 1]."""
    chunks = [min(CHUNK, count - start) for start in range(0, count, CHUNK)]
    latents = torch.cat([latents_of(vae, _pictures(corpus, chunk, device)) for chunk in chunks])
    return latents.mean((0, 2, 3), keepdim=True), latents.std((0, 2, 3), keepdim=True)


def train_vae(
    corpus: Corpus, out: Path, *, recipe: Recipe, shape: Architecture, device: torch.device
) -> Codec:
    """Train and polish a VAE; write weights, configuration, log and a sheet.

    In the sheet each row of originals stands above its reconstructions.
    """
    torch.manual_seed(recipe.seed)
    log = Log(out, device)
    vae = on_device(PictureVAE(shape), device)
    stages = [stage(vae, corpus, recipe, log, out, device) for stage in (_train, _polish)]
    codec = Codec(vae.requires_grad_(False), *statistics(vae, corpus, 8 * recipe.measured, device))
    save_weights(out / "vae.safetensors", inflate(vae.state_dict()))
    (out / "vae_config.json").write_text(json.dumps(config(shape, codec), indent=1) + "\n")
    _report(codec, corpus, recipe, log, out, device, stages)
    return codec


def _report(
    codec: Codec,
    corpus: Corpus,
    recipe: Recipe,
    log: Log,
    out: Path,
    device: torch.device,
    stages: list[Stage],
) -> None:
    chunks = [
        _pictures(corpus, min(64, recipe.measured), device)
        for _ in range(max(1, recipe.measured // 64))
    ]
    decibels = torch.cat([psnr(codec, chunk) for chunk in chunks])
    found = {"mean": decibels.mean(), "p10": decibels.quantile(0.1), "min": decibels.min()}
    found = {name: round(float(value), 2) for name, value in found.items()}
    log.note(
        psnr_db=found, pictures=len(decibels), loss={stage.name: stage.curve for stage in stages}
    )
    log.say(f"reconstruction PSNR in dB: {found}")
    rows = zip(
        chunks[0][:32].split(8), codec.decode(codec.encode(chunks[0][:32])).split(8), strict=True
    )
    write_sheet(out / "reconstructions.png", torch.cat([half for pair in rows for half in pair]), 8)
