"""Train transformer and text encoder together by flow matching on a pool of encoded clips."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from workbench.zoo.training.artefacts import Log, load_weights
from workbench.zoo.training.dit import Trainer, run, training_times
from workbench.zoo.training.pool import Pool
from workbench.zoo.training.video.codec import CHUNK, ClipCodec
from workbench.zoo.training.video.corpus import ClipCorpus
from workbench.zoo.training.video.evaluate import evaluate
from workbench.zoo.training.video.export import scheduler
from workbench.zoo.training.video.recipe import VideoArchitecture, VideoRecipe
from workbench.zoo.training.video.sampling import ClipModel, networks, pipeline_time

EMPTY = 0.1
"""Share of captions replaced by the negative prompt ""."""

TIME_CENTRE = 0.6
"""Mean of the logit of t: noisier than for pictures, as the schedule's shift of 5 is."""


class ClipPool(Pool):
    """Encoded clips with their corpus indices."""

    chunk = CHUNK

    def encoded(self, origins: Tensor) -> Tensor:
        """Normalised latents [n, z, F, H, W] of training clips."""
        return self.codec.encode(self.corpus.clips(origins))


class ClipCaptions:
    """Token tables on the device, with caption dropout."""

    def __init__(self, corpus: ClipCorpus) -> None:
        self.tokens, self.lengths, self.empty = corpus.tokens, corpus.lengths, corpus.empty_tokens
        self.length = self.tokens.shape[-1]

    def draw(self, origins: Tensor) -> tuple[Tensor, Tensor]:
        """Draw a caption per clip index [B]: ids [B, L], lengths [B]."""
        count, device = len(origins), origins.device
        variant = torch.randint(self.tokens.shape[1], (count,), device=device)
        dropped = torch.rand(count, device=device) < EMPTY
        tokens = torch.where(dropped[:, None], self.empty, self.tokens[origins, variant])
        return tokens, torch.where(dropped, 1, self.lengths[origins, variant])

    def negative(self, count: int) -> tuple[Tensor, Tensor]:
        """The empty prompt `count` times, as ids and lengths."""
        return self.empty.expand(count, -1), self.lengths.new_ones(count)


def flow_loss(
    model: ClipModel, pool: ClipPool, captions: ClipCaptions, recipe: VideoRecipe
) -> Tensor:
    """Mean squared error of the velocity noise - x0 at (1 - t) x0 + t noise, on a random batch.

    In some of the clips the first latent frame is given: it stays clean, its t is 0, and what is
    predicted for it does not count.
    """
    clean, origins = pool.draw(recipe.dit_batch)
    tokens, lengths = captions.draw(origins)
    count, frames, device = len(clean), clean.shape[2], clean.device
    t, seen = training_times(count, device, TIME_CENTRE, pipeline_time)
    given = torch.rand(count, device=device) < recipe.image_share
    loud = (~given[:, None] | (torch.arange(frames, device=device) > 0)).float()
    noise = torch.randn_like(clean)
    blend = torch.lerp(clean, noise, (t[:, None] * loud)[:, None, :, None, None])
    made = model.velocity(blend, tokens, lengths, seen[:, None] * loud)
    error = (made - (noise - clean)).square().mean((1, 3, 4))
    return (error * loud).sum() / loud.sum()


class ClipTrainer(Trainer):
    """Networks, data, optimiser, loss curve; `step` is a whole training step on the device."""

    def __init__(
        self, corpus: ClipCorpus, codec: ClipCodec, recipe: VideoRecipe, shape: VideoArchitecture,
        device: torch.device,
    ) -> None:  # fmt: skip
        self.recipe, self.shape, self.device = recipe, shape, device
        self.captions, self.rows = ClipCaptions(corpus), corpus.vocab_size
        text_encoder, transformer = networks(shape, self.rows, self.captions.length, device)
        self.model = ClipModel(codec, transformer, text_encoder)
        self.pool = ClipPool(corpus, codec, recipe, device)
        self.begin()

    @staticmethod
    def to_muon(name: str, weight: Tensor) -> bool:
        """The matrices inside transformer blocks and text blocks."""
        inside = name.startswith(("transformer.blocks.", "text_encoder.encoder.block."))
        return inside and weight.ndim == 2 and "relative_attention_bias" not in name

    def compile(self) -> None:
        """Compile block by block (equal blocks share one compilation), the text encoder whole."""
        self.model.text_encoder.compile()
        for block in self.model.transformer.blocks:
            block.compile()

    def loss(self) -> Tensor:
        """Of a random batch."""
        return flow_loss(self.model, self.pool, self.captions, self.recipe)

    def load(self, folder: Path) -> None:
        """Go on from weights of an earlier run; its optimiser's memory is gone."""
        for name in ("transformer", "text_encoder"):
            network = getattr(self.model, name)
            network.load_state_dict(load_weights(folder / f"{name}.safetensors"))
        self.begin()

    def averaged(self) -> ClipModel:
        """A new, uncompiled model with the averaged weights."""
        made = networks(self.shape, self.rows, self.captions.length, self.device)
        states = self.states()
        for network, name in zip(made, ("text_encoder", "transformer"), strict=True):
            network.load_state_dict(states[name])
        return ClipModel(self.model.codec, made[1], made[0])


def train_dit(
    corpus: ClipCorpus,
    codec: ClipCodec,
    out: Path,
    *,
    recipe: VideoRecipe,
    shape: VideoArchitecture,
    device: torch.device,
    start: Path | None = None,
) -> ClipModel:
    """Train transformer and text encoder, write weights and log, then judge the result.

    Args:
        corpus: Where the clips come from.
        codec: The trained VAE.
        out: Folder for the weights, `log.json` and what `evaluate` writes.
        recipe: Steps and rates.
        shape: Architecture.
        device: Where to train; the corpus and the VAE live there.
        start: Folder of an earlier run to go on from; None begins anew.
    """
    torch.manual_seed(recipe.seed)
    # Masked attention by cuDNN depends on finding a plan for the shape; the other kernels do not.
    torch.backends.cuda.enable_cudnn_sdp(False)
    scheduler()  # a missing diffusers is found now, not when the model is judged
    log = Log(out, device)
    trainer = ClipTrainer(corpus, codec, recipe, shape, device)
    if start is not None:
        trainer.load(start)
    log.say(f"pool of {recipe.pool} clips encoded")
    if device.type == "cuda":
        trainer.compile()
    run(trainer, log, out)
    trainer.save(out)
    log.note(
        steps=recipe.dit_steps, batch=recipe.dit_batch, loss=trainer.curve(), recipe=vars(recipe)
    )
    model = trainer.averaged()
    log.note(evaluation=evaluate(model, corpus, recipe, log, out))
    return model
