"""The corpus of clips on a device: token ids ready to train on, and clips composed on demand.

Needs torch and numpy only. Everything random was decided by `build_corpus`; a spec is a row of
small integers and `ClipCorpus.compose` turns rows into clips without waiting for the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from workbench.zoo.training.compose import Composer
from workbench.zoo.training.scenes import SCENES, draw_bank
from workbench.zoo.training.video.motions import SIZES, paths
from workbench.zoo.training.video.recipe import FRAMES, SIDE

FIELDS = ("object", "background", "variant", "colour", "motion", "speed", "left", "floor")
SPLITS = ("seen", "held-out")
HEADS = ("object", "background", "colour", "motion")
"""What a judge is asked about a clip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipEvaluation:
    """Prompts with what should be seen.

    Attributes:
        tokens: int64 [n, T], right padded.
        lengths: int64 [n], tokens before the padding.
        specs: int64 [n, len(FIELDS)], for `ClipCorpus.compose`: the real clip of each prompt.
        prompts: The n prompts.
    """

    tokens: Tensor
    lengths: Tensor
    specs: Tensor
    prompts: list[str]


class ClipCorpus:
    """Training clips and captions; make one with `ClipCorpus.load`.

    Attributes:
        specs: int64 [N, len(FIELDS)], one row per clip.
        tokens: int64 [N, C, T], C captions per clip, right padded.
        lengths: int64 [N, C], tokens before the padding, the end mark included.
        empty_tokens: int64 [T], the negative prompt "": an end mark alone.
        named: Ids and lengths of the prompts in `named_prompts`, which documentation shows.
        names: Names of objects, backgrounds, colours and motions, by the `HEADS` they answer.
        vocab_size: Rows that the embedding needs, a multiple of 64.
    """

    def __init__(self, file: np.lib.npyio.NpzFile, bank: Tensor) -> None:
        """Use `ClipCorpus.load` instead."""
        self.device = bank.device
        self.names = {head: file[f"{head}-names"].tolist() for head in HEADS}
        self.vocab_size = int(file["vocabulary"])
        self.specs, self.tokens = (self._to_device(file[key]) for key in ("specs", "tokens"))
        self.lengths = _lengths(self.tokens)
        self.empty_tokens = self._to_device(file["empty-tokens"])[0]
        named = self._to_device(file["named-tokens"])
        self.named, self.named_prompts = (named, _lengths(named)), file["named-prompts"].tolist()
        self._splits = {key: file[key] for key in file.files if key.startswith(SPLITS)}
        self._compose = Composer(
            file["sprites"], file["ground"], bank, sizes=SIZES, colours=self.names["colour"][1:]
        )

    @classmethod
    def load(
        cls, path: Path | str, *, device: torch.device | str, variants: int = 96, seed: int = 0
    ) -> ClipCorpus:
        """Read a corpus and draw its backgrounds.

        Args:
            path: File written by `build_corpus`.
            device: Where everything lives; backgrounds take 0.13 GB there.
            variants: Pictures per background.
            seed: Fixes the backgrounds.

        Raises:
            ValueError: the file knows other backgrounds than this version draws.
        """
        bank = draw_bank(variants, device=device, seed=seed)
        small = torch.stack([halved(pictures) for pictures in bank])
        with np.load(path) as file:
            if file["background-names"].tolist() != list(SCENES):
                raise ValueError(
                    f"{Path(path).name} knows other backgrounds than scenes.SCENES; rebuild it "
                    "with python -m workbench.zoo.training.video corpus PATH"
                )
            return cls(file, small)

    def __len__(self) -> int:
        """Number of training clips."""
        return len(self.specs)

    def clips(self, index: Tensor) -> Tensor:
        """Compose training clips.

        Args:
            index: int64 [B] in [0, len(self)), on the corpus' device.

        Returns:
            float32 [B, 3, FRAMES, 128, 128] in [-1, 1].
        """
        return self.compose(self.specs[index])

    def compose(self, specs: Tensor) -> Tensor:
        """Draw any specs: int64 [B, len(FIELDS)] to float32 [B, 3, FRAMES, 128, 128]."""
        columns = dict(zip(FIELDS, specs.unbind(1), strict=True))
        moving = [columns[name] for name in ("motion", "speed", "left", "floor")]
        place = paths(*moving).flatten(0, 1)
        still = ("object", "background", "variant", "colour", "floor")
        frames = {name: columns[name].repeat_interleave(FRAMES) for name in still}
        frames |= {"size": place[:, 0], "left": place[:, 1], "bottom": place[:, 2]}
        return self._compose(frames).unflatten(0, (-1, FRAMES)).transpose(1, 2)

    def evaluation(self, split: Literal["seen", "held-out"], count: int) -> ClipEvaluation:
        """Prompts of combinations that training has seen, or has never seen.

        Args:
            split: "held-out" pairs an object with a background or a motion never trained together.
            count: How many, at most the 1,024 stored; the first ones.
        """
        if split not in SPLITS:
            raise ValueError(f"split={split!r} is unknown; choose 'seen' or 'held-out'")
        prompts = self._splits[f"{split}-prompts"]
        if not 1 <= count <= len(prompts):
            raise ValueError(f"count={count} must lie in 1..{len(prompts)}; ask for fewer prompts")
        specs, tokens = (
            self._to_device(self._splits[f"{split}-{key}"][:count]) for key in ("specs", "tokens")
        )
        return ClipEvaluation(
            tokens=tokens, lengths=_lengths(tokens), specs=specs, prompts=prompts[:count].tolist()
        )

    def _to_device(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array.astype(np.int64)).to(self.device)


def halved(pictures: Tensor) -> Tensor:
    """The mean of each 2 x 2 pixels: uint8 [n, 3, 256, 256] to uint8 [n, 3, 128, 128]."""
    small = F.avg_pool2d(pictures.float(), 2).round().to(torch.uint8)
    assert small.shape[-1] == SIDE
    return small


def _lengths(tokens: Tensor) -> Tensor:
    """Tokens before the padding, whose id is 0: [..., T] to [...]."""
    return (tokens != 0).sum(-1)
