"""Train transformer and text encoder together by flow matching on a pool of encoded pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from workbench.zoo.training.artefacts import Log, save_weights
from workbench.zoo.training.codec import Codec
from workbench.zoo.training.corpus import Corpus
from workbench.zoo.training.evaluate import evaluate
from workbench.zoo.training.optim import Optimizer, Rates, captured
from workbench.zoo.training.pool import Captions, Pool
from workbench.zoo.training.recipe import Architecture, Recipe
from workbench.zoo.training.sampling import Model, networks, pipeline_time
from workbench.zoo.training.tokenizer import embedding_rows
from workbench.zoo.training.vae import SAVE_EVERY

UNIFORM_SHARE = 0.1
TIME_CENTRE, TIME_SPREAD = 0.3, 1.1


def training_times(
    count: int,
    device: torch.device,
    centre: float = TIME_CENTRE,
    rounded: Callable[[Tensor], Tensor] = pipeline_time,
) -> tuple[Tensor, Tensor]:
    """Times t [B] in [0, 1], and as the network sees them: every other one rounded as in bf16.

    Nine in ten are logit-normal with stratified quantiles, the rest uniform. The logit's mean is
    `centre`, and `rounded` is what the pipeline does to t.
    """
    quantiles = (torch.arange(count, device=device) + torch.rand(count, device=device)) / count
    normal = torch.sigmoid(centre + TIME_SPREAD * torch.special.ndtri(quantiles))
    uniform = torch.rand(count, device=device)
    t = torch.where(torch.rand(count, device=device) < UNIFORM_SHARE, uniform, normal)
    return t, torch.where(torch.arange(count, device=device) % 2 == 0, rounded(t), t)


def flow_loss(model: Model, pool: Pool, captions: Captions, count: int) -> Tensor:
    """Mean squared error of the velocity noise - x0 at (1 - t) x0 + t noise, on a random batch."""
    clean, origins = pool.draw(count)
    tokens, lengths = captions.draw(origins)
    t, seen = training_times(count, clean.device)
    noise = torch.randn_like(clean)
    blend = torch.lerp(clean, noise, t[:, None, None])
    return F.mse_loss(model.velocity(blend, tokens, lengths, seen), noise - clean)


def to_muon(name: str, weight: Tensor) -> bool:
    """The matrices inside transformer blocks and text layers."""
    return weight.ndim == 2 and ("transformer_blocks." in name or ".layers." in name)


class Trainer:
    """Networks, data, optimiser, loss curve; `step` is a whole training step on the device."""

    to_muon = staticmethod(to_muon)

    def __init__(
        self,
        corpus: Corpus,
        codec: Codec,
        recipe: Recipe,
        shape: Architecture,
        device: torch.device,
    ) -> None:
        self.recipe, self.shape, self.device = recipe, shape, device
        self.captions, self.rows = Captions(corpus, device), embedding_rows(corpus.vocab_size)
        self.model = Model(
            codec, *reversed(networks(shape, self.rows, self.captions.length, device))
        )
        self.pool = Pool(corpus, codec, recipe, device)
        self.begin()

    def begin(self) -> None:
        """Make the optimiser of `model` by the rates of `recipe`, and the loss curve."""
        recipe = self.recipe
        both = nn.ModuleDict(
            {"transformer": self.model.transformer, "text_encoder": self.model.text_encoder}
        )
        rates = Rates(
            steps=recipe.dit_steps, warmup=recipe.dit_warmup, floor=0.005, ema=recipe.dit_ema,
            rate=recipe.dit_rate, decay=recipe.dit_decay, muon_rate=recipe.dit_muon_rate,
            muon_decay=recipe.dit_muon_decay,
        )  # fmt: skip
        self.optimizer = Optimizer(both, rates, self.to_muon)
        self.losses = torch.zeros(recipe.dit_steps, device=self.device)

    def compile(self) -> None:
        """Compile block by block (equal blocks share one compilation), the text encoder whole.

        Eager PyTorch sorts in the gradient of an embedding; compiled, it is plain atomic adds,
        safe in a CUDA graph.
        """
        self.model.text_encoder.model.language_model.compile()
        for block in self.model.transformer.transformer_blocks:
            block.compile()

    def loss(self) -> Tensor:
        """Of a random batch."""
        return flow_loss(self.model, self.pool, self.captions, self.recipe.dit_batch)

    def step(self) -> None:
        """Sample a batch, differentiate, update, average; note the loss in `losses`."""
        loss = self.loss()
        place = self.optimizer.taken.long().clamp(max=len(self.losses) - 1)
        self.losses.index_copy_(0, place[None], loss.detach()[None])
        self.optimizer.step(loss)

    def states(self) -> dict[str, dict[str, Tensor]]:
        """Averaged weights by network."""
        state = self.optimizer.averaged()
        names = ("transformer", "text_encoder")
        return {
            name: {k[len(name) + 1 :]: v for k, v in state.items() if k.startswith(name + ".")}
            for name in names
        }

    def curve(self) -> list[float]:
        """About 200 mean losses over the whole run."""
        chunks = self.losses.cpu().split(max(1, len(self.losses) // 200))
        return [round(float(chunk.mean()), 5) for chunk in chunks]

    def save(self, out: Path) -> None:
        """Write the averaged weights."""
        for name, state in self.states().items():
            save_weights(out / f"{name}.safetensors", state)

    def averaged(self) -> Model:
        """A new, uncompiled model with the averaged weights."""
        text_encoder, transformer = networks(
            self.shape, self.rows, self.captions.length, self.device
        )
        text_encoder.load_state_dict(self.states()["text_encoder"])
        transformer.load_state_dict(self.states()["transformer"])
        return Model(self.model.codec, transformer, text_encoder)


def run(trainer: Trainer, log: Log, out: Path) -> None:
    """Take all steps through one CUDA graph, refresh the pool, report, save about once a minute."""
    steps, warmup = trainer.recipe.dit_steps, 3
    step = captured(trainer.step, trainer.device, warmup)
    log.say(f"step compiled and captured, {steps} to take")
    started = saved = log.seconds
    every = max(1, min(500, steps // 4))
    for taken in range(warmup, steps):
        step()
        if taken % trainer.recipe.refresh_every == 0:
            trainer.pool.refresh()
        if taken % every == 0:
            loss = float(trainer.losses[taken + 1 - every : taken + 1].mean())
            pace = (log.seconds - started) / (taken + 1 - warmup)
            log.say(
                f"step {taken}, loss {loss:.4f}, {1e3 * pace:.1f} ms a step, "
                f"{pace * (steps - taken):.0f} s to go"
            )
        if log.seconds - saved > SAVE_EVERY:
            saved = log.seconds
            trainer.save(out)


def train_dit(
    corpus: Corpus,
    codec: Codec,
    out: Path,
    *,
    recipe: Recipe,
    shape: Architecture,
    device: torch.device,
) -> Model:
    """Train transformer and text encoder, write weights and log, then judge the result."""
    torch.manual_seed(recipe.seed)
    # Masked attention by cuDNN depends on finding a plan for the shape; the other kernels do not.
    torch.backends.cuda.enable_cudnn_sdp(False)
    log = Log(out, device)
    trainer = Trainer(corpus, codec, recipe, shape, device)
    log.say(f"pool of {recipe.pool} pictures encoded")
    if device.type == "cuda":
        trainer.compile()
    run(trainer, log, out)
    trainer.save(out)
    log.note(steps=recipe.dit_steps, batch=recipe.dit_batch, loss=trainer.curve())
    model = trainer.averaged()
    log.note(evaluation=evaluate(model, corpus, recipe, device, log, out))
    return model
