"""The corpus on a device: token ids ready to train on, and pictures composed on demand.

Needs torch and numpy only. Everything random was decided by `build_corpus`; a spec is a row of
small integers and `Corpus.compose` turns rows into pictures without waiting for the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from workbench.zoo.training.compose import Composer
from workbench.zoo.training.scenes import SCENES, draw_bank

FIELDS = (
    "object", "background", "variant", "colour", "size", "left", "bottom",
    "object2", "colour2", "left2",
)  # fmt: skip
SIZES = (96, 144, 192)  # drawn side in pixels, index = the spec's size
# Left edges per size: one phase of the 16-pixel token grid each, so an object always meets the
# same patches and the model needs to learn one drawing of it.
LEFTS = ((32, 80, 128), (24, 56, 88), (16, 32, 48))
SECOND = ((16, 32), (128, 144))  # left edges of the first and the second of two objects


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Prompts about one object with what should be seen.

    Attributes:
        tokens: int64 [n, L], whole template, right padded.
        lengths: int64 [n], tokens before the padding.
        objects: int64 [n], index into `Corpus.objects`.
        backgrounds: int64 [n], index into `Corpus.backgrounds`.
        colours: int64 [n], index into `Corpus.colours`; 0 is "natural".
        prompts: The n prompts.
        specs: int64 [n, len(FIELDS)], for `Corpus.compose`: the real picture of each prompt.
    """

    tokens: Tensor
    lengths: Tensor
    objects: Tensor
    backgrounds: Tensor
    colours: Tensor
    prompts: list[str]
    specs: Tensor


class Corpus:
    """Training pictures and captions; make one with `Corpus.load`.

    Attributes:
        specs: int64 [N, len(FIELDS)], one row per picture.
        tokens: int64 [N, C, L], C captions per picture: template prefix, caption, template suffix,
            then padding.
        lengths: int64 [N, C], tokens before the padding.
        empty_tokens: int64 [E, L'], negative prompts: "", " ", then a few junk ones.
        empty_lengths: int64 [E].
        objects: Names of the things.
        backgrounds: Names of the backgrounds.
        colours: Names of the tints; index 0 is "natural", not tinted.
        vocab_size: Rows the embedding needs, a multiple of 64.
        pad_id: Token id of the padding.
        prefix_length: Template tokens before the caption, 34.
    """

    def __init__(self, file: np.lib.npyio.NpzFile, *, device: torch.device, bank: Tensor) -> None:
        """Use `Corpus.load` instead."""
        self._file = {key: file[key] for key in file.files if "-" in key or "fix" in key}
        self.device = device
        self.objects, self.backgrounds, self.colours = (
            file[key].tolist() for key in ("objects", "backgrounds", "colours")
        )
        self.vocab_size, self.pad_id = file["vocabulary"].tolist()
        self.prefix_length = len(file["prefix"])
        self.specs = self._to_device(file["specs"])
        self.tokens, self.lengths = self._template(file["tokens"])
        self.empty_tokens, self.empty_lengths = self._template(file["empty-tokens"])
        self._compose = Composer(
            file["sprites"], file["ground"], bank, sizes=SIZES, colours=self.colours[1:]
        )

    @classmethod
    def load(
        cls, path: Path | str, *, device: torch.device | str, variants: int = 96, seed: int = 0
    ) -> Corpus:
        """Read a corpus and draw its backgrounds.

        Args:
            path: File written by `build_corpus`.
            device: Where everything lives; captions take about 130 MB there, backgrounds 0.5 GB.
            variants: Pictures per background.
            seed: Fixes the backgrounds.
        """
        device = torch.device(device)
        bank = draw_bank(variants, device=device, seed=seed)
        with np.load(path) as file:
            if file["backgrounds"].tolist() != list(SCENES):
                raise ValueError(
                    f"{Path(path).name} knows other backgrounds than scenes.SCENES; rebuild it "
                    "with python -m workbench.zoo.training.build"
                )
            return cls(file, device=device, bank=bank)

    def __len__(self) -> int:
        """Number of training pictures."""
        return len(self.specs)

    def pictures(self, index: Tensor) -> Tensor:
        """Compose training pictures.

        Args:
            index: int64 [B] in [0, len(self)), on the corpus' device.

        Returns:
            float32 [B, 3, 256, 256] in [-1, 1].
        """
        return self.compose(self.specs[index])

    def compose(self, specs: Tensor) -> Tensor:
        """Draw any specs: int64 [B, len(FIELDS)] to float32 [B, 3, 256, 256] in [-1, 1]."""
        return self._compose(dict(zip(FIELDS, specs.unbind(1), strict=True)))

    def evaluation(self, split: Literal["seen", "held-out"], count: int, seed: int) -> Evaluation:
        """Prompts of combinations that training has seen, or has never seen.

        Args:
            split: "held-out" pairs an object with a background or a colour never trained together.
            count: How many, at most the 1,024 stored.
            seed: Fixes the choice.
        """
        if split not in ("seen", "held-out"):
            raise ValueError(f"split={split!r} is unknown; choose 'seen' or 'held-out'")
        prompts = self._file[f"{split}-prompts"]
        if not 1 <= count <= len(prompts):
            raise ValueError(f"count={count} must lie in 1..{len(prompts)}; ask for fewer prompts")
        chosen = np.random.default_rng(seed).permutation(len(prompts))[:count]
        tokens, lengths = self._template(self._file[f"{split}-tokens"][chosen])
        specs = self._to_device(self._file[f"{split}-specs"][chosen])
        columns = (specs[:, FIELDS.index(key)] for key in ("object", "background", "colour"))
        objects, backgrounds, colours = columns
        return Evaluation(
            tokens=tokens, lengths=lengths, objects=objects, backgrounds=backgrounds,
            colours=colours, prompts=prompts[chosen].tolist(), specs=specs,
        )  # fmt: skip

    def _to_device(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array.astype(np.int64)).to(self.device)

    def _template(self, body: np.ndarray) -> tuple[Tensor, Tensor]:
        """Captions [..., L] to whole sequences [..., 34 + L + 5] and their lengths [...]."""
        prefix, suffix = self._file["prefix"], self._file["suffix"]
        size = (body != self.pad_id).sum(-1)
        out = np.full((*body.shape[:-1], len(prefix) + body.shape[-1] + len(suffix)), self.pad_id)
        out[..., : len(prefix)] = prefix
        out[..., len(prefix) : -len(suffix)] = body
        at = len(prefix) + size[..., None] + np.arange(len(suffix))
        np.put_along_axis(out, at, np.broadcast_to(suffix.astype(out.dtype), at.shape), -1)
        return self._to_device(out), self._to_device(size + len(prefix) + len(suffix))
