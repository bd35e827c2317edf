"""The corpus of the video model: sentences, held-out pairs, and clips that move as they say."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")
pytest.importorskip("transformers")

from workbench.zoo.training.video import build, sentences  # noqa: E402
from workbench.zoo.training.video.corpus import FIELDS, HEADS, ClipCorpus  # noqa: E402
from workbench.zoo.training.video.motions import (  # noqa: E402
    FAST,
    FLOORS,
    MOTIONS,
    NAMES,
    SIZES,
    SLOW,
    paths,
)
from workbench.zoo.training.video.recipe import FRAMES, SIDE  # noqa: E402

COUNT = 200


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clips") / "clips.npz"
    build.build_corpus(path, specs=COUNT)
    return path


@pytest.fixture(scope="module")
def corpus(path: Path) -> ClipCorpus:
    return ClipCorpus.load(path, device="cpu", variants=1)


@pytest.fixture(scope="module")
def encode() -> build.Encoder:
    return build.Encoder()


def clip(corpus: ClipCorpus, motion: str, speed: int, **values: int) -> torch.Tensor:
    """One clip [3, T, S, S] of a heart, which casts no shadow, on plain white."""
    spec = {
        "object": corpus.names["object"].index("heart"), "variant": 0, "colour": 0,
        "background": corpus.names["background"].index("plain white"), "speed": speed,
        "motion": NAMES.index(motion), "left": 32, "floor": FLOORS[1],
    } | values  # fmt: skip
    return corpus.compose(torch.tensor([[spec[field] for field in FIELDS]]))[0]


def test_corpus_is_deterministic(path: Path, tmp_path: Path) -> None:
    build.build_corpus(tmp_path / "again.npz", specs=COUNT)
    assert (tmp_path / "again.npz").read_bytes() == path.read_bytes()


def test_a_corpus_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="specs=0 and captions=3 must be at least 1"):
        build.build_corpus(tmp_path / "none.npz", specs=0)


def test_held_out_pairs_are_never_trained() -> None:
    places, motions = build.held_out_pairs()
    column = dict(
        zip(FIELDS, build.draw_specs(20_000, np.random.default_rng(0)).T.astype(int), strict=True)
    )
    assert not places[column["object"], column["background"]].any()
    assert not motions[column["object"], column["motion"]].any()
    assert 0.04 < places.mean() < 0.06
    assert 0.04 < motions.mean() < 0.07
    ball = build.OBJECTS.index("soccer ball")
    assert not places[ball, build.BACKGROUNDS.index("grass")]
    assert not motions[ball, NAMES.index("right")]


@pytest.mark.parametrize(("split", "expected"), [("seen", False), ("held-out", True)])
def test_evaluation_keeps_its_promise(corpus: ClipCorpus, split: str, expected: bool) -> None:
    places, motions = build.held_out_pairs()
    evaluation = corpus.evaluation(split, 256)
    o, b, m = (
        evaluation.specs[:, FIELDS.index(f)].numpy() for f in ("object", "background", "motion")
    )
    assert ((places[o, b] | motions[o, m]) == expected).all()
    assert corpus.names["object"][o[0]] in evaluation.prompts[0]
    if expected:
        assert 0.4 < places[o, b].mean() < 0.6


def test_an_unknown_split_or_too_many_are_refused(corpus: ClipCorpus) -> None:
    with pytest.raises(ValueError, match="held-out"):
        corpus.evaluation("test", 1)
    with pytest.raises(ValueError, match=r"1\.\.1024"):
        corpus.evaluation("seen", 2000)


def test_captions_are_one_token_a_word(encode: build.Encoder) -> None:
    rows = build.draw_specs(2_000, np.random.default_rng(1)).tolist()
    random = Random(0)
    texts = [sentences.caption(*build._said(row), random) for row in rows]
    for text, ids in zip(texts, encode(texts), strict=True):
        kept = ids[ids > 0]
        assert 2 not in kept, text  # unknown
        assert len(kept) == len(re.findall(r"\w+|[,.]", text)) + 1 < build.TEXT_TOKENS, text
    assert len(set(texts)) > 1_900
    assert any(text[0].isupper() for text in texts)


def test_the_prompts_of_the_documentation_are_understood(encode: build.Encoder) -> None:
    ids = encode(build.NAMED)
    assert build.NAMED[0] == "a ball rolling to the right on grass"
    assert [int((row > 0).sum()) for row in ids] == [len(t.split()) + 1 for t in build.NAMED]


def test_stored_tokens_are_those_of_the_exported_tokenizer(
    corpus: ClipCorpus, tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    from workbench.zoo.tiny_tokenizers import build_t5

    build_t5(tmp_path, sentences.lexicon())
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    evaluation = corpus.evaluation("seen", 4)
    pairs = [*zip(evaluation.prompts, evaluation.tokens, evaluation.lengths, strict=True)]
    pairs.append(("", corpus.empty_tokens, torch.tensor(1)))
    for text, tokens, length in pairs:
        assert tokens[:length].tolist() == tokenizer(text).input_ids
        assert not tokens[length:].any()
    assert len(tokenizer) <= corpus.vocab_size < len(tokenizer) + 64


def test_nothing_leaves_the_picture() -> None:
    for index, motion in enumerate(MOTIONS):
        choices = [*product(motion.speeds, motion.lefts, motion.floors)]
        speed, left, floor = torch.tensor(choices).unbind(1)
        size, x, bottom = paths(torch.full_like(speed, index), speed, left, floor).unbind(-1)
        side = size * 4 + SIZES[0]
        assert size.min() >= 0, motion.name
        assert size.max() < len(SIZES), motion.name
        assert x.min() >= 0, motion.name
        assert (x + side).max() <= SIDE, motion.name
        assert (bottom - side).min() >= 0, motion.name
        assert bottom.amax(1).tolist() == floor.tolist(), motion.name


@pytest.mark.parametrize(
    ("motion", "speed", "dx", "dy"),
    [
        ("right", FAST, 8, 0), ("right", SLOW, 4, 0), ("left", FAST, -8, 0), ("left", SLOW, -4, 0),
        ("up", FAST, 0, -8), ("down", SLOW, 0, 4), ("still", 0, 0, 0),
    ],
)  # fmt: skip
def test_things_move_as_the_spec_says(
    corpus: ClipCorpus, motion: str, speed: int, dx: int, dy: int
) -> None:
    red = clip(corpus, motion, speed)
    mask = (red[0] - red[1] > 0.6).double()
    assert mask.shape == (FRAMES, SIDE, SIDE)
    assert mask.sum((1, 2)).unique().numel() == 1
    line = torch.arange(SIDE).double()
    x = (mask.sum(1) * line).sum(1) / mask.sum((1, 2))
    y = (mask.sum(2) * line).sum(1) / mask.sum((1, 2))
    assert x.diff().tolist() == pytest.approx([dx] * 8)
    assert y.diff().tolist() == pytest.approx([dy] * 8)


def test_things_grow_when_they_come_closer(corpus: ClipCorpus) -> None:
    closer, away = (clip(corpus, motion, 0) for motion in ("closer", "away"))
    area = (closer[0] - closer[1] > 0.6).sum((1, 2))
    assert bool((area.diff() > 0).all())
    assert float(area[-1] / area[0]) == pytest.approx((64 / 32) ** 2, rel=0.1)
    assert torch.equal(away.flip(1), closer)


def test_the_place_stands_still_and_the_shadow_stays_on_the_floor(corpus: ClipCorpus) -> None:
    duck = corpus.names["object"].index("duck")
    rising = clip(corpus, "up", FAST, object=duck)
    assert torch.equal(rising[:, 0, :, 120:], rising[:, -1, :, 120:])
    bare = clip(corpus, "up", FAST)  # a heart has no shadow
    under = slice(FLOORS[1] - 3, FLOORS[1])
    assert float((bare - rising)[:, -1, under, 40:72].mean()) > 0.1
    assert torch.equal(bare[:, 0, :8], rising[:, 0, :8])


def test_clips_are_drawn_by_index(corpus: ClipCorpus) -> None:
    clips = corpus.clips(torch.arange(4))
    assert clips.shape == (4, 3, FRAMES, SIDE, SIDE)
    assert float(clips.abs().max()) <= 1
    assert torch.equal(clips, corpus.compose(corpus.specs[:4]))
    assert len(corpus) == COUNT
    assert set(corpus.names) == set(HEADS)
