"""Judge what a trained model draws: are object, place, colour and motion those of the prompt."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from workbench.zoo.training.artefacts import Log
from workbench.zoo.training.judge import PEAK_RATE, Judge, learning_rate, save_judge
from workbench.zoo.training.video.codec import ClipCodec
from workbench.zoo.training.video.corpus import FIELDS, HEADS, SPLITS, ClipCorpus, ClipEvaluation
from workbench.zoo.training.video.recipe import VideoArchitecture, VideoRecipe
from workbench.zoo.training.video.sampling import ClipModel
from workbench.zoo.training.video.train_vae import write_strips

CHUNK = 64  # clips judged at once
SHOWN = 12  # clips of each kind on a sheet
LOOKED_AT = slice(None, None, 4)
"""Frames that the judge sees: first, middle, last, as one picture of nine channels."""

CHANNELS = 9


def train_judge(corpus: ClipCorpus, *, steps: int, count: int, seed: int) -> Judge:
    """Train a classifier of clips that answers all of `HEADS`.

    Args:
        corpus: Where the clips come from, and on which device.
        steps: Optimiser steps.
        count: Clips per step.
        seed: Fixes the start and the order of clips.

    Returns:
        The judge in evaluation mode.
    """
    torch.manual_seed(seed)
    sizes = tuple(len(corpus.names[head]) for head in HEADS)
    judge = Judge(sizes, CHANNELS).to(corpus.device, memory_format=torch.channels_last)
    fused = corpus.device.type == "cuda"
    optimizer = torch.optim.AdamW(judge.parameters(), lr=PEAK_RATE, weight_decay=0.02, fused=fused)
    for step in range(steps):
        index = torch.randint(len(corpus), (count,), device=corpus.device)
        loss = _loss(judge, corpus, corpus.specs[index])
        optimizer.param_groups[0]["lr"] = learning_rate(step, steps)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return judge.eval()


def _loss(judge: Judge, corpus: ClipCorpus, specs: Tensor) -> Tensor:
    """Cross-entropy of all heads on noisy clips, so that a VAE's grain does no harm."""
    seen = looked_at(corpus.compose(specs))
    level = 0.12 * torch.rand(len(seen), 1, 1, 1, device=seen.device)
    seen = seen + level * torch.randn_like(seen)
    with torch.autocast(seen.device.type, torch.bfloat16, enabled=seen.is_cuda):
        answers = judge(seen)
    return torch.stack(
        [F.cross_entropy(a.float(), t) for a, t in zip(answers, truths(specs), strict=True)]
    ).sum()


def looked_at(clips: Tensor) -> Tensor:
    """What the judge sees of clips [B, 3, 9, H, W]: [B, 9, H, W]."""
    return clips[:, :, LOOKED_AT].flatten(1, 2)


def truths(specs: Tensor) -> list[Tensor]:
    """What each head should say of specs [n, len(FIELDS)]."""
    return [specs[:, FIELDS.index(head)] for head in HEADS]


@torch.inference_mode()
def accuracy(judge: Judge, clips: Tensor, specs: Tensor) -> dict[str, list[bool]]:
    """Whether the judge sees in clips [n, 3, T, H, W] what the specs say, by head."""
    if len(clips) != len(specs):
        raise ValueError(f"{len(clips)} clips for {len(specs)} specs; pass one per spec")
    parts = [judge(looked_at(part).float()) for part in clips.split(CHUNK)]
    answers = [torch.cat(logits).argmax(1) for logits in zip(*parts, strict=True)]
    pairs = zip(HEADS, answers, truths(specs), strict=True)
    return {head: (said == truth).tolist() for head, said, truth in pairs}


def evaluate(
    model: ClipModel, corpus: ClipCorpus, recipe: VideoRecipe, log: Log, out: Path
) -> dict[str, dict[str, float]]:
    """Draw `recipe.judged` clips per split and kind, and judge them.

    Kinds are "text" (from the prompt alone), "image" (the true first frame is given) and "real",
    the true clips through the VAE: the most that can be expected of the judge. Writes
    `evaluation.json` (answers and prompts), `text.png`, `image.png` and the judge.

    Returns:
        Share judged right by head, keyed `KIND, SPLIT`.
    """
    judge = train_judge(
        corpus, steps=recipe.judge_steps, count=recipe.judge_clips, seed=recipe.seed
    )
    save_judge(judge, out / "judge.safetensors")
    log.say("judge trained")
    found, details = {}, {"named": corpus.named_prompts}
    shown = {"text": [named(model, corpus, recipe)], "image": []}
    for split in SPLITS:
        evaluation = corpus.evaluation(split, recipe.judged)
        details[split] = {"prompts": evaluation.prompts}
        for kind, clips in _drawn(model, corpus, evaluation, recipe).items():
            right = accuracy(judge, clips, evaluation.specs)
            details[split][kind] = right
            shares = {head: sum(said) / len(said) for head, said in right.items()}
            found[f"{kind}, {split}"] = shares
            log.say(f"{kind}, {split}: {shares}")
            shown.setdefault(kind, []).append(clips[:SHOWN])
    (out / "evaluation.json").write_text(json.dumps(details) + "\n")
    for kind in ("text", "image"):
        write_strips(out / f"{kind}.png", torch.cat(shown[kind]))
    return found


def _drawn(
    model: ClipModel, corpus: ClipCorpus, evaluation: ClipEvaluation, recipe: VideoRecipe
) -> dict[str, Tensor]:
    """The clips of each kind."""
    latents = model.codec.encode(corpus.compose(evaluation.specs))
    prompt = (evaluation.tokens, evaluation.lengths)
    return {
        "text": drawn(model, corpus, prompt, recipe),
        "image": drawn(model, corpus, prompt, recipe, first=latents[:, :, :1]),
        "real": model.codec.decode(latents),
    }


def drawn(
    model: ClipModel, corpus: ClipCorpus, prompt: tuple[Tensor, Tensor], recipe: VideoRecipe,
    first: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Clips for (ids, lengths) with the recipe's steps and guidance, negative prompt ""."""
    count = len(prompt[0])
    negative = (corpus.empty_tokens.expand(count, -1), corpus.lengths.new_ones(count))
    return model.sample(
        prompt, negative, steps=recipe.sampling_steps, guidance=recipe.guidance,
        seed=recipe.seed, first=first,
    )  # fmt: skip


def named(model: ClipModel, corpus: ClipCorpus, recipe: VideoRecipe) -> Tensor:
    """Clips of the prompts that stand in the documentation."""
    return drawn(model, corpus, corpus.named, recipe)


def judge_folder(
    weights: Path,
    codec: ClipCodec,
    corpus: ClipCorpus,
    out: Path,
    *,
    recipe: VideoRecipe,
    shape: VideoArchitecture,
) -> dict[str, dict[str, float]]:
    """Evaluate weights on disk, a folder of the dit command, and add the result to its log."""
    log = Log(out, corpus.device)
    model = ClipModel.load(weights, codec, shape, corpus.tokens.shape[-1])
    found = evaluate(model, corpus, recipe, log, out)
    log.note(evaluation=found)
    return found
