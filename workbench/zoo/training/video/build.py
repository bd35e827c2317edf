"""Invent the corpus of clips: which exist, what is said about them, and what is held out."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np

from workbench.zoo.training.captions import COLOURS, NATURAL, PLACES
from workbench.zoo.training.sprites import THINGS, load_sprites
from workbench.zoo.training.tokenizer import embedding_rows
from workbench.zoo.training.video import sentences
from workbench.zoo.training.video.corpus import FIELDS, HEADS, SPLITS
from workbench.zoo.training.video.motions import MOTIONS, NAMES

OBJECTS = tuple(thing.name for thing in sentences.KINDS)
BACKGROUNDS = tuple(PLACES)
TINTS = (NATURAL, *COLOURS)
ALWAYS_SEEN = (("soccer ball", "grass"), ("soccer ball", "right"), ("car", "city street"))
NAMED = (
    "a ball rolling to the right on grass",
    "a ball rolling to the left on grass",
    "a red car moving to the right on a city street",
    "a rocket rising in the clouds",
    "a balloon floating up slowly at sunset",
    "an apple falling on a wooden table",
    "a penguin coming closer in the snow",
    "a teapot standing still on a wooden table",
)
TEXT_TOKENS = 31
EVALUATION_POOL = 1024
_TINTED, _FAVOUR, _HELD_OUT = 0.25, 3, 0.05
# Going to the side is what people ask for first.
_MOTION_SHARES = {
    "right": 0.25, "left": 0.22, "up": 0.14, "down": 0.14, "still": 0.09, "closer": 0.08,
    "away": 0.08,
}  # fmt: skip


def build_corpus(path: Path, *, specs: int = 120_000, seed: int = 0, captions: int = 3) -> None:
    """Write a corpus that `ClipCorpus.load` reads: specs, captions as token ids, sprites, names.

    Args:
        path: The `.npz` to write, under 10 MB at the default sizes; same arguments, same bytes.
        specs: Number of training clips, at least 1.
        seed: Fixes every choice except the held-out pairs, which never change.
        captions: Captions per clip, at least 1.

    Raises:
        ValueError: no clip or no caption was asked for.
    """
    if specs < 1 or captions < 1:
        raise ValueError(
            f"specs={specs} and captions={captions} must be at least 1; try 120000 and 3"
        )
    encode, rng, random = Encoder(), np.random.default_rng(seed), Random(seed)
    train = draw_specs(specs, rng)
    texts = [
        sentences.caption(*_said(row), random) for row in train.tolist() for _ in range(captions)
    ]
    arrays = {"specs": train, "tokens": encode(texts).reshape(specs, captions, -1)}
    for split in SPLITS:
        rows = evaluation_specs(EVALUATION_POOL, rng, held_out=split == "held-out")
        prompts = [sentences.prompt(*_said(row)) for row in rows.tolist()]
        arrays |= {f"{split}-specs": rows, f"{split}-tokens": encode(prompts)}
        arrays[f"{split}-prompts"] = np.array(prompts)
    kept = [THINGS.index(thing) for thing in sentences.KINDS]
    arrays |= {"empty-tokens": encode([""]), "vocabulary": np.array(embedding_rows(encode.size))}
    arrays |= {
        "sprites": load_sprites()[kept],
        "ground": np.array([THINGS[i].ground for i in kept]),
    }
    arrays |= {"named-prompts": np.array(NAMED), "named-tokens": encode(NAMED)}
    names = (OBJECTS, BACKGROUNDS, TINTS, NAMES)
    arrays |= {f"{head}-names": np.array(name) for head, name in zip(HEADS, names, strict=True)}
    np.savez_compressed(path, **arrays)


def held_out_pairs() -> tuple[np.ndarray, np.ndarray]:
    """Pairs never trained on, chosen by a hash of their names.

    Returns:
        bool [objects, backgrounds] and bool [objects, motions], about 5 % true each.
    """
    return tuple(
        np.array([[_hash(o, n) < _HELD_OUT and (o, n) not in ALWAYS_SEEN for n in names]
                  for o in OBJECTS])
        for names in (BACKGROUNDS, NAMES)
    )  # fmt: skip


def draw_specs(count: int, rng: np.random.Generator) -> np.ndarray:
    """Random training specs without held-out pairs.

    Args:
        count: How many.
        rng: Source of randomness.

    Returns:
        int16 [count, len(FIELDS)].
    """
    places, motions = held_out_pairs()
    found = np.empty((0, len(FIELDS)), np.int16)
    while len(found) < count:
        drawn = _free_specs(count, rng)
        o, b, m = _columns(drawn, "object", "background", "motion")
        found = np.concatenate([found, drawn[~places[o, b] & ~motions[o, m]]])
    return found[:count]


def evaluation_specs(count: int, rng: np.random.Generator, *, held_out: bool) -> np.ndarray:
    """Specs of seen pairs, or of held-out ones, half of them by place and half by motion.

    Returns:
        int16 [count, len(FIELDS)], shuffled.
    """
    places, motions = held_out_pairs()
    kinds = [(places, ~motions), (~places, motions)] if held_out else [(~places, ~motions)]
    parts = []
    for rank, (by_place, by_motion) in enumerate(kinds):
        drawn = _free_specs(60 * count, rng)
        o, b, m = _columns(drawn, "object", "background", "motion")
        parts.append(drawn[by_place[o, b] & by_motion[o, m]][: (count + rank) // len(kinds)])
    return rng.permutation(np.concatenate(parts))


def _free_specs(count: int, rng: np.random.Generator) -> np.ndarray:
    """Any pairs, but no tint on a plain background of its own colour."""
    favoured = [thing.flagship or thing.name in sentences.FAVOURED for thing in sentences.KINDS]
    weight = np.where(favoured, _FAVOUR, 1.0)
    background = rng.integers(0, len(BACKGROUNDS), count)
    colour = rng.integers(1, len(TINTS), count) * (rng.random(count) < _TINTED)
    plain = np.array([_plain_index(name) for name in BACKGROUNDS])
    motion = rng.choice(len(MOTIONS), count, p=[_MOTION_SHARES[name] for name in NAMES])
    columns = {
        "object": rng.choice(len(OBJECTS), count, p=weight / weight.sum()),
        "background": background,
        "variant": rng.integers(0, 2**15, count),
        "colour": np.where(plain[background] == colour, 0, colour),
        "motion": motion,
        **{field: _one_of(f"{field}s", motion, rng) for field in ("speed", "left", "floor")},
    }
    return np.stack([columns[field] for field in FIELDS], 1).astype(np.int16)


def _one_of(choices: str, motion: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For each motion one of its speeds, lefts or floors."""
    table = [getattr(m, choices) for m in MOTIONS]
    lot = rng.random(len(motion))
    return np.array([table[m][int(u * len(table[m]))] for m, u in zip(motion, lot, strict=True)])


def _columns(specs: np.ndarray, *fields: str) -> list[np.ndarray]:
    return [specs[:, FIELDS.index(field)].astype(int) for field in fields]


def _plain_index(background: str) -> int:
    name = background.removeprefix("plain ")
    return TINTS.index(name) if name in COLOURS else -1


def _hash(*names: str) -> float:
    return zlib.crc32("|".join(names).encode()) / 2**32


def _said(row: Sequence[int]) -> tuple:
    """What a sentence says about a spec: thing, colour, motion, speed, background."""
    spec = dict(zip(FIELDS, row, strict=True))
    motion, place = MOTIONS[spec["motion"]], BACKGROUNDS[spec["background"]]
    return sentences.KINDS[spec["object"]], TINTS[spec["colour"]], motion, spec["speed"], place


class Encoder:
    """The shipped tokenizer."""

    def __init__(self) -> None:
        from tokenizers import Tokenizer

        from workbench.zoo.tiny_tokenizers import build_t5

        with tempfile.TemporaryDirectory() as folder:
            self.size = build_t5(Path(folder), sentences.lexicon())
            self._tokenizer = Tokenizer.from_file(str(Path(folder, "tokenizer.json")))

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Ids of n texts, cut or padded with 0: uint16 [n, TEXT_TOKENS]."""
        rows = [
            encoding.ids[:TEXT_TOKENS] for encoding in self._tokenizer.encode_batch(list(texts))
        ]
        out = np.zeros((len(rows), TEXT_TOKENS), np.uint16)
        for line, ids in zip(out, rows, strict=True):
            line[: len(ids)] = ids
        return out
