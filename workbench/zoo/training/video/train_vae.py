"""Train the clip VAE from the picture VAE, then polish its decoder with the latents held still."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import torch
from torch import Tensor

from workbench.zoo.training.artefacts import Log, load_weights, save_weights, write_sheet
from workbench.zoo.training.codec import config, on_device
from workbench.zoo.training.optim import Rates
from workbench.zoo.training.vae import Stage, noisy, picture_loss
from workbench.zoo.training.video.codec import (
    CHUNK,
    ClipCodec,
    latents_of,
    psnr,
)
from workbench.zoo.training.video.corpus import ClipCorpus
from workbench.zoo.training.video.recipe import VideoArchitecture, VideoRecipe
from workbench.zoo.training.video.vae_net import PICTURE_VAE, ClipVAE

SHOWN = 8  # clips on the sheet


def clip_loss(made: Tensor, real: Tensor, mse_weight: float) -> Tensor:
    """The picture loss, plus half the L1 between differences of neighbouring frames."""
    moves = (made.float() - real).diff(dim=2).abs().mean()
    return picture_loss(made, real, mse_weight) + 0.5 * moves


def training_loss(vae: ClipVAE, clips: Tensor, recipe: VideoRecipe) -> Tensor:
    """Reconstruction, plus a pull of the latents towards unit size.

    The log-variance is not sampled from; it only learns to name the noise that the decoder was
    trained with.
    """
    mean, log_variance = (moment.float() for moment in vae.encode(clips))
    loss = clip_loss(vae.decode(noisy(mean, recipe.latent_noise)), clips, 0.25)
    spoken = 2 * torch.log(recipe.latent_noise / 2 * mean.detach().std())
    honesty = (log_variance - spoken).square().mean()
    return loss + recipe.kl_weight * mean.square().mean() / 2 + 1e-4 * honesty


def polish_loss(vae: ClipVAE, clips: Tensor, recipe: VideoRecipe) -> Tensor:
    """Reconstruction by the decoder alone."""
    return clip_loss(vae.decode(noisy(latents_of(vae, clips), recipe.polish_noise)), clips, 0.5)


def to_muon(name: str, weight: Tensor) -> bool:
    """The kernels."""
    return name.endswith("weight") and weight.ndim >= 4


def train_vae(
    corpus: ClipCorpus,
    out: Path,
    *,
    recipe: VideoRecipe,
    shape: VideoArchitecture,
    device: torch.device,
    start: Path | None = None,
) -> ClipCodec:
    """Train and polish a VAE; write weights, configuration, log and a sheet.

    Args:
        corpus: Where the clips come from.
        out: Folder for `vae.safetensors`, `vae_config.json`, `log.json`, `reconstructions.png`.
        recipe: Steps and rates; a stage of no steps is left out.
        shape: Architecture.
        device: Where to train; the corpus lives there.
        start: Weights of an earlier run to go on from; None begins with the picture VAE, or where
            the shape is another, anew.
    """
    torch.manual_seed(recipe.seed)
    log = Log(out, device)
    vae = on_device(_begun(shape, start), device)
    stages = [
        _stage("vae", recipe.vae_steps, vae, corpus, recipe, log, out),
        _stage("polish", recipe.polish_steps, vae, corpus, recipe, log, out),
    ]
    codec = ClipCodec(vae.requires_grad_(False), *statistics(vae, corpus, recipe.measured))
    save_weights(out / "vae.safetensors", vae.state_dict())
    (out / "vae_config.json").write_text(json.dumps(config(shape, codec), indent=1) + "\n")
    log.note(loss=dict(zip(("vae", "polish"), stages, strict=True)), recipe=vars(recipe))
    report(codec, corpus, recipe.measured, log, out)
    return codec


def _begun(shape: VideoArchitecture, start: Path | None) -> ClipVAE:
    vae = ClipVAE(shape)
    if start is not None:
        vae.load_state_dict(load_weights(start))
    elif shape.vae_width == VideoArchitecture().vae_width:
        vae.load_pictures(PICTURE_VAE)
    return vae


def _stage(
    name: str, steps: int, vae: ClipVAE, corpus: ClipCorpus, recipe: VideoRecipe, log: Log,
    out: Path,
) -> list[tuple[int, float]]:  # fmt: skip
    """Train everything, or in the polish the decoder; returns the loss curve."""
    if steps < 1:
        return []
    polish = name == "polish"
    if polish:
        vae.encoder.requires_grad_(False)
        vae.quant_conv.requires_grad_(False)
    rates = Rates(
        steps=steps, rate=recipe.vae_rate, muon_rate=recipe.vae_muon_rate,
        warmup=recipe.vae_warmup, ema=recipe.vae_ema,
    )  # fmt: skip
    stage = Stage(name, vae, rates, to_muon)
    loss = polish_loss if polish else training_loss
    stage.run(
        lambda step: some_clips(corpus, recipe.vae_clips),
        lambda clips: loss(vae, clips, recipe), log, out,
    )  # fmt: skip
    return stage.curve


def some_clips(corpus: ClipCorpus, count: int) -> Tensor:
    """Random training clips [count, 3, T, H, W]."""
    return corpus.clips(torch.randint(len(corpus), (count,), device=corpus.device))


def statistics(vae: ClipVAE, corpus: ClipCorpus, count: int) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation per latent channel over random clips, each [1, z, 1, 1, 1]."""
    chunks = [min(CHUNK, count - begin) for begin in range(0, count, CHUNK)]
    latents = torch.cat([latents_of(vae, some_clips(corpus, chunk)) for chunk in chunks])
    axes = (0, 2, 3, 4)
    return latents.mean(axes, keepdim=True), latents.std(axes, keepdim=True)


def report(codec: ClipCodec, corpus: ClipCorpus, count: int, log: Log, out: Path) -> None:
    """Measure reconstruction, also with the weights rounded to bf16 as they are shipped."""
    rounded = copy.deepcopy(codec.vae)
    for weight in rounded.parameters():
        weight.copy_(weight.bfloat16())
    shipped = ClipCodec(rounded, codec.mean, codec.std)
    chunks = [min(CHUNK, count - begin) for begin in range(0, count, CHUNK)]
    drawn = [some_clips(corpus, chunk) for chunk in chunks]
    frames = torch.cat([psnr(codec, clips) for clips in drawn])
    whole = frames.mean(1)
    found = {"mean": whole.mean(), "p10": whole.quantile(0.1), "min": whole.min()}
    found["bf16_weights"] = torch.cat([psnr(shipped, clips) for clips in drawn]).mean()
    found = {name: round(float(value), 2) for name, value in found.items()}
    by_frame = [round(value, 2) for value in frames.mean(0).tolist()]
    log.note(psnr_db=found, psnr_db_by_frame=by_frame, clips=count)
    log.say(f"reconstruction PSNR in dB: {found}, by frame {by_frame}")
    shown = drawn[0][:SHOWN]
    pairs = torch.stack([shown, codec.decode(codec.encode(shown))], 1).flatten(0, 1)
    write_strips(out / "reconstructions.png", pairs)


def write_strips(path: Path, clips: Tensor) -> None:
    """Write every second frame of clips [n, 3, T, H, W] as rows of a sheet."""
    frames = clips[:, :, ::2].transpose(1, 2)
    write_sheet(path, frames.flatten(0, 1), frames.shape[1])
