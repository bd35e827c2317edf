"""A small classifier that says which object, background and tint a picture shows.

It is lenient: melted objects still pass. Its accuracy on real pictures is the ceiling to compare
with, and a number from it never replaces looking.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workbench.zoo.training.corpus import FIELDS, Corpus, Evaluation

BATCH = 256
PEAK_RATE = 3e-3
_WIDTHS = (24, 48, 96, 144, 192)
_HEADS = ("object", "background", "colour")


class Judge(nn.Module):
    """Five strided convolution stages and one linear head per question.

    Attributes:
        sizes: Classes of each head: object, background, colour.
    """

    def __init__(self, sizes: tuple[int, ...], channels: int = 3) -> None:
        """Make an untrained judge.

        Args:
            sizes: Number of objects, backgrounds and colours.
            channels: Of a picture; three for each frame of a clip that is looked at.
        """
        super().__init__()
        self.sizes = sizes
        layers: list[nn.Module] = []
        for before, after in zip((channels, *_WIDTHS), _WIDTHS, strict=False):
            layers += [
                nn.Conv2d(before, after, 3, 2, 1, bias=False),
                nn.BatchNorm2d(after),
                nn.SiLU(),
            ]
            layers += [
                nn.Conv2d(after, after, 3, 1, 1, bias=False),
                nn.BatchNorm2d(after),
                nn.SiLU(),
            ]
        self.trunk = nn.Sequential(*layers)
        self.heads = nn.ModuleList(nn.Linear(2 * _WIDTHS[-1], size) for size in sizes)

    def forward(self, pictures: Tensor) -> tuple[Tensor, ...]:
        """Pictures [B, channels, S, S] in [-1, 1] to the logits of each head."""
        features = self.trunk(pictures.contiguous(memory_format=torch.channels_last))
        pooled = torch.cat([features.mean((2, 3)), features.amax((2, 3))], 1)
        return tuple(head(pooled) for head in self.heads)


def train_judge(corpus: Corpus, *, steps: int, device: torch.device | str, seed: int) -> Judge:
    """Train on single-object pictures of the corpus.

    Args:
        corpus: Where the pictures come from; must live on the device.
        steps: Optimizer steps of 256 pictures; 1,500 suffice.
        device: Where to train.
        seed: Fixes the start and the order of pictures.

    Returns:
        The judge in evaluation mode.
    """
    torch.manual_seed(seed)
    counts = (len(corpus.objects), len(corpus.backgrounds), len(corpus.colours))
    judge = Judge(counts).to(device, memory_format=torch.channels_last)
    fused = torch.device(device).type == "cuda"
    optimizer = torch.optim.AdamW(judge.parameters(), lr=PEAK_RATE, weight_decay=0.02, fused=fused)
    single = corpus.specs[corpus.specs[:, FIELDS.index("object2")] < 0]
    for step in range(steps):
        # Indices are drawn where they are used: no copy, so the device is never waited for.
        specs = single[torch.randint(len(single), (BATCH,), device=single.device)]
        loss = _loss(judge, corpus, specs)
        optimizer.param_groups[0]["lr"] = learning_rate(step, steps)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return judge.eval()


@torch.inference_mode()
def accuracy(
    judge: Judge, pictures: Tensor, evaluation: Evaluation
) -> dict[str, float | list[bool]]:
    """Share of pictures on which the judge sees what the prompt asked for.

    Args:
        judge: A trained judge.
        pictures: [n, 3, 256, 256] in [-1, 1], one per prompt.
        evaluation: The n prompts.

    Returns:
        "object", "background", "colour": accuracy in [0, 1]; "object-correct" and so on: one bool
        per prompt.
    """
    if len(pictures) != len(evaluation.prompts):
        raise ValueError(
            f"{len(pictures)} pictures for {len(evaluation.prompts)} prompts; pass one per prompt"
        )
    device = next(judge.parameters()).device
    parts = [judge(part.to(device).float()) for part in pictures.split(BATCH)]
    truths = (evaluation.objects, evaluation.backgrounds, evaluation.colours)
    result: dict[str, float | list[bool]] = {}
    for head, logits, truth in zip(_HEADS, zip(*parts, strict=True), truths, strict=True):
        correct = torch.cat(logits).argmax(1) == truth.to(device)
        result[head] = correct.float().mean().item()
        result[f"{head}-correct"] = correct.tolist()
    return result


def save_judge(judge: Judge, path: Path) -> None:
    """Write the judge in half precision as safetensors, about 2 MB."""
    from safetensors.torch import save_file

    state = {key: _halved(value) for key, value in judge.state_dict().items()}
    save_file(state, path, metadata={"sizes": " ".join(map(str, judge.sizes))})


def load_judge(path: Path, *, device: torch.device | str = "cpu") -> Judge:
    """Read what `save_judge` wrote; computes in float32."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        objects, backgrounds, colours = map(int, file.metadata()["sizes"].split())
        state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    judge = Judge((objects, backgrounds, colours))
    judge.load_state_dict(state)
    return judge.to(device).eval()


def _halved(value: Tensor) -> Tensor:
    return (value.half() if value.is_floating_point() else value).cpu().contiguous()


def learning_rate(step: int, steps: int) -> float:
    """Linear warm-up over a twentieth of the steps to the peak, then cosine to zero."""
    warm = max(1, steps // 20)
    return PEAK_RATE * min(1.0, (step + 1) / warm) * 0.5 * (1 + math.cos(math.pi * step / steps))


def _loss(judge: Judge, corpus: Corpus, specs: Tensor) -> Tensor:
    """Cross-entropy of the three heads on noisy pictures, so that a VAE's grain does no harm."""
    pictures = corpus.compose(specs)
    level = 0.12 * torch.rand(len(pictures), 1, 1, 1, device=pictures.device)
    pictures = pictures + level * torch.randn_like(pictures)
    with torch.autocast(pictures.device.type, torch.bfloat16, enabled=pictures.is_cuda):
        logits = judge(pictures)
    targets = (specs[:, FIELDS.index(head)] for head in _HEADS)
    return torch.stack(
        [F.cross_entropy(g.float(), t) for g, t in zip(logits, targets, strict=True)]
    ).sum()
