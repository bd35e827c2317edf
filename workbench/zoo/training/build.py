"""Invent the corpus: which pictures exist, what is said about them, and what is held out.

python -m workbench.zoo.training.build PATH.npz   # CPU, needs the `tokenizers` library
"""

from __future__ import annotations

import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np

from workbench.zoo.training.captions import (
    COLOURS,
    NATURAL,
    NEGATIVES,
    PLACES,
    Subject,
    caption,
    prompt,
)
from workbench.zoo.training.corpus import FIELDS, LEFTS, SECOND, SIZES
from workbench.zoo.training.sprites import THINGS, load_sprites
from workbench.zoo.training.tokenizer import (
    PREFIX_TOKENS,
    SUFFIX_TOKENS,
    TEMPLATE,
    build_tokenizer,
    embedding_rows,
)

OBJECT_NAMES = [thing.name for thing in THINGS]
BACKGROUND_NAMES = list(PLACES)
COLOUR_NAMES = [NATURAL, *COLOURS]
ALWAYS_SEEN = ("teapot", "wooden table")
EVALUATION_POOL = 1024
CAPTION_TOKENS = 22  # about 2 % of the captions are longer and lose their end
_TINTED, _TWO, _FAVOUR = 0.33, 0.20, 3


def build_corpus(path: Path, *, specs: int = 150_000, seed: int = 0, captions: int = 3) -> None:
    """Write a corpus that `Corpus.load` reads: specs, captions as token ids, sprites, names.

    Args:
        path: The `.npz` to write, under 10 MB at the default sizes; same arguments, same bytes.
        specs: Number of training pictures, at least 1.
        seed: Fixes every choice except the held-out pairs, which never change.
        captions: Captions per picture.
    """
    if specs < 1 or captions < 1:
        raise ValueError(
            f"specs={specs} and captions={captions} must be at least 1; try 150000 and 3"
        )
    encode = _Encoder()
    rng, random = np.random.default_rng(seed), Random(seed)
    train = draw_specs(specs, rng)
    texts = [_caption(row, random) for row in train.tolist() for _ in range(captions)]
    arrays = {"specs": train, "tokens": encode(texts).reshape(specs, captions, -1)}
    for split, held_out in (("seen", False), ("held-out", True)):
        rows = evaluation_specs(EVALUATION_POOL, rng, held_out=held_out)
        prompts = [prompt(_subjects(row)[0], BACKGROUND_NAMES[row[1]]) for row in rows.tolist()]
        arrays |= {f"{split}-specs": rows, f"{split}-tokens": encode(prompts)}
        arrays[f"{split}-prompts"] = np.array(prompts)
    arrays |= {"empty-tokens": encode(NEGATIVES), "prefix": encode.prefix, "suffix": encode.suffix}
    arrays["sprites"], arrays["ground"] = (load_sprites(), np.array([t.ground for t in THINGS]))
    arrays |= {"objects": np.array(OBJECT_NAMES), "backgrounds": np.array(BACKGROUND_NAMES)}
    arrays["colours"] = np.array(COLOUR_NAMES)
    arrays["vocabulary"] = np.array([embedding_rows(encode.size), encode.pad])
    np.savez_compressed(path, **arrays)


def held_out_pairs() -> tuple[np.ndarray, np.ndarray]:
    """Pairs never trained on, chosen by a hash of their names.

    Returns:
        bool [objects, backgrounds], about 5 % true, and bool [objects, colours], about 9 % true
        (the natural colour never).
    """
    places = [[_hash(o, b) < 0.05 for b in BACKGROUND_NAMES] for o in OBJECT_NAMES]
    tints = [[c != NATURAL and _hash(o, c) < 0.09 for c in COLOUR_NAMES] for o in OBJECT_NAMES]
    out = np.array(places), np.array(tints)
    out[0][OBJECT_NAMES.index(ALWAYS_SEEN[0]), BACKGROUND_NAMES.index(ALWAYS_SEEN[1])] = False
    return out


def draw_specs(count: int, rng: np.random.Generator) -> np.ndarray:
    """Random training specs without held-out pairs.

    Args:
        count: How many.
        rng: Source of randomness.

    Returns:
        int16 [count, len(FIELDS)].
    """
    found = np.empty((0, len(FIELDS)), np.int16)
    while len(found) < count:
        drawn = _free_specs(count, rng)
        found = np.concatenate([found, drawn[_allowed(drawn)]])
    return found[:count]


def evaluation_specs(count: int, rng: np.random.Generator, *, held_out: bool) -> np.ndarray:
    """Single-object specs of seen or of held-out pairs, the latter half by colour.

    Returns:
        int16 [count, len(FIELDS)].
    """
    places, tints = held_out_pairs()
    kinds = [(places, ~tints), (~places, tints)] if held_out else [(~places, ~tints)]
    parts = []
    for rank, (by_place, by_tint) in enumerate(kinds):
        drawn = _free_specs(60 * count, rng, two=0.0)
        o, b, c = (drawn[:, FIELDS.index(f)] for f in ("object", "background", "colour"))
        good = by_place[o, b] & by_tint[o, c] & _visible(b, c)
        parts.append(drawn[good][: (count + rank) // len(kinds)])
    return np.concatenate(parts)


def _free_specs(count: int, rng: np.random.Generator, two: float = _TWO) -> np.ndarray:
    weight = np.array([_FAVOUR if thing.flagship else 1 for thing in THINGS], float)
    pair = rng.random(count) < two
    objects = rng.choice(len(THINGS), (2, count), p=weight / weight.sum())
    tinted = rng.random((2, count)) < _TINTED
    colours = rng.integers(1, len(COLOUR_NAMES), (2, count)) * tinted
    size = np.where(pair, 0, rng.choice(3, count, p=(0.14, 0.50, 0.36)))
    lefts = np.array(LEFTS)[size, rng.integers(0, 3, count)]
    columns = {
        "object": objects[0],
        "background": rng.integers(0, len(PLACES), count),
        "variant": rng.integers(0, 2**15, count),
        "colour": colours[0],
        "size": size,
        "left": np.where(pair, rng.choice(SECOND[0], count), lefts),
        "bottom": rng.choice((208, 224), count),
        "object2": np.where(pair, objects[1], -1),
        "colour2": np.where(pair, colours[1], 0),
        "left2": np.where(pair, rng.choice(SECOND[1], count), 0),
    }
    return np.stack([columns[field] for field in FIELDS], 1).astype(np.int16)


def _allowed(specs: np.ndarray) -> np.ndarray:
    """Specs [n] without held-out pair, a tint like its plain background or an object twice."""
    places, tints = held_out_pairs()
    o, b, c, o2, c2 = (
        specs[:, FIELDS.index(f)] for f in ("object", "background", "colour", "object2", "colour2")
    )
    first = ~places[o, b] & ~tints[o, c] & _visible(b, c)
    second = ~places[o2, b] & ~tints[o2, c2] & _visible(b, c2) & (o != o2)
    return first & (second | (o2 < 0))


def _visible(background: np.ndarray, colour: np.ndarray) -> np.ndarray:
    own = np.array([_plain_index(name) for name in BACKGROUND_NAMES])
    return own[background] != colour


def _plain_index(background: str) -> int:
    name = background.removeprefix("plain ")
    return COLOUR_NAMES.index(name) if name in COLOURS else -1


def _hash(*names: str) -> float:
    return zlib.crc32("|".join(names).encode()) / 2**32


def _subjects(row: Sequence[int]) -> list[Subject]:
    spec = dict(zip(FIELDS, row, strict=True))
    size = SIZES[spec["size"]] if spec["object2"] < 0 else 144  # nothing is small beside another
    subjects = [Subject(THINGS[spec["object"]], COLOUR_NAMES[spec["colour"]], size)]
    if spec["object2"] >= 0:
        subjects += [Subject(THINGS[spec["object2"]], COLOUR_NAMES[spec["colour2"]], size)]
    return subjects


def _caption(row: Sequence[int], random: Random) -> str:
    return caption(_subjects(row), BACKGROUND_NAMES[row[FIELDS.index("background")]], random)


class _Encoder:
    """Texts, without template, to ids cut or padded to `CAPTION_TOKENS`: uint16 [n, L]."""

    def __init__(self) -> None:
        from tokenizers import Tokenizer

        with tempfile.TemporaryDirectory() as folder:
            vocab = build_tokenizer(Path(folder))
            self._tokenizer = Tokenizer.from_file(str(Path(folder, "tokenizer.json")))
        self.size, self.pad = len(vocab), vocab["<|endoftext|>"]
        whole = np.array(self._tokenizer.encode(TEMPLATE.format("")).ids, np.uint16)
        self.prefix, self.suffix = whole[:PREFIX_TOKENS], whole[PREFIX_TOKENS:]
        assert len(self.suffix) == SUFFIX_TOKENS

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        rows = [
            encoding.ids[:CAPTION_TOKENS] for encoding in self._tokenizer.encode_batch(list(texts))
        ]
        out = np.full((len(rows), CAPTION_TOKENS), self.pad, np.uint16)
        for line, ids in zip(out, rows, strict=True):
            line[: len(ids)] = ids
        return out


if __name__ == "__main__":
    build_corpus(Path(sys.argv[1]))
