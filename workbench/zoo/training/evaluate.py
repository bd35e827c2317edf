"""Judge what a trained model draws: are object, background and colour those of the prompt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from workbench.zoo.training.artefacts import Log, write_sheet
from workbench.zoo.training.corpus import Corpus
from workbench.zoo.training.judge import accuracy, save_judge, train_judge
from workbench.zoo.training.pool import Captions, padded
from workbench.zoo.training.recipe import Architecture, Recipe
from workbench.zoo.training.sampling import Model

SPLITS = ("seen", "held-out")
SHOWN = 32


def evaluate(
    model: Model, corpus: Corpus, recipe: Recipe, device: torch.device, log: Log, out: Path
) -> dict[str, dict[str, float]]:
    """Draw `recipe.judged` pictures per split (20 steps, true CFG 4) and judge them.

    Writes `evaluation.json` (accuracies and prompts by split), `evaluation.png` (32 pictures of
    seen above 32 of held-out combinations) and the judge. Returns the accuracies.
    """
    judge = train_judge(corpus, steps=recipe.judge_steps, device=device, seed=recipe.seed)
    save_judge(judge, out / "judge.safetensors")
    log.say("judge trained")
    captions = Captions(corpus, device)
    found: dict[str, dict[str, float]] = {}
    details: dict[str, Any] = {}
    shown: list[Tensor] = []
    for split in SPLITS:
        evaluation = corpus.evaluation(split, recipe.judged, recipe.seed)
        tokens = padded(evaluation.tokens, captions.length, corpus.pad_id, device)
        pictures = draw(model, captions, tokens, evaluation.lengths.to(device), recipe.seed)
        answers = accuracy(judge, pictures, evaluation)
        found[split] = {name: share for name, share in answers.items() if isinstance(share, float)}
        details[split] = answers | {"prompts": evaluation.prompts}
        shown.append(pictures[:SHOWN])
        log.say(f"{split}: {found[split]}")
    (out / "evaluation.json").write_text(json.dumps(details) + "\n")
    write_sheet(out / "evaluation.png", torch.cat(shown), 8)
    return found


def draw(model: Model, captions: Captions, tokens: Tensor, lengths: Tensor, seed: int) -> Tensor:
    """Pictures [B, 3, 256, 256] for ids [B, L]; the negative prompt is a space, row 1."""
    space = (
        captions.empty_tokens[1].expand(len(tokens), -1),
        captions.empty_lengths[1].expand(len(tokens)),
    )
    return model.sample((tokens, lengths), space, seed=seed)


def judge_folder(
    weights: Path,
    vae: Path,
    corpus: Corpus,
    out: Path,
    *,
    recipe: Recipe,
    shape: Architecture,
    device: torch.device,
) -> dict[str, dict[str, float]]:
    """Evaluate weights on disk: `weights` is a folder of the dit command, `vae` a VAE file."""
    log = Log(out, device)
    model = Model.load(weights, vae, shape, Captions(corpus, device).length, device)
    found = evaluate(model, corpus, recipe, device, log, out)
    log.note(evaluation=found)
    return found
