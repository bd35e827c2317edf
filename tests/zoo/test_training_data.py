"""The corpus of the small model: tokenizer, captions, held-out pairs, pictures."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tokenizers")
pytest.importorskip("transformers")

from workbench.zoo.training import build, captions  # noqa: E402
from workbench.zoo.training import tokenizer as tok  # noqa: E402
from workbench.zoo.training.corpus import FIELDS, Corpus  # noqa: E402
from workbench.zoo.training.judge import Judge, accuracy  # noqa: E402
from workbench.zoo.training.scenes import draw_bank  # noqa: E402
from workbench.zoo.training.sprites import THINGS, load_sprites  # noqa: E402

COUNT = 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    tok.build_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder: Path):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.npz"
    build.build_corpus(path, specs=COUNT)
    return path


@pytest.fixture(scope="module")
def corpus(path: Path) -> Corpus:
    return Corpus.load(path, device="cpu", variants=2)


def spec(corpus: Corpus, **values: int) -> torch.Tensor:
    plain = dict.fromkeys(FIELDS, 0) | {"left": 80, "bottom": 208, "object2": -1}
    return torch.tensor([[(plain | values)[field] for field in FIELDS]])


def test_tokenizer_is_the_same_byte_for_byte(folder: Path, tmp_path: Path) -> None:
    tok.build_tokenizer(tmp_path)
    names = sorted(file.name for file in folder.iterdir())
    assert names == ["merges.txt", "tokenizer.json", "tokenizer_config.json", "vocab.json"]
    assert all((folder / name).read_bytes() == (tmp_path / name).read_bytes() for name in names)


def test_template_prefix_has_34_tokens(tokenizer) -> None:
    empty = tokenizer(tok.TEMPLATE.format("")).input_ids
    full = tokenizer(tok.TEMPLATE.format("a teapot on a wooden table")).input_ids
    assert len(empty) == tok.PREFIX_TOKENS + tok.SUFFIX_TOKENS
    assert full[:34] == empty[:34]
    assert full[-5:] == empty[-5:]
    assert len(full) == len(empty) + 6


def test_template_is_that_of_diffusers() -> None:
    pipeline = pytest.importorskip("diffusers.pipelines.qwenimage.pipeline_qwenimage")
    source = Path(pipeline.__file__).read_text()
    assert repr(tok.TEMPLATE)[1:-1] in source
    assert f"prompt_template_encode_start_idx = {tok.PREFIX_TOKENS}" in source


def test_every_word_is_one_token(tokenizer) -> None:
    inner, first = captions.lexicon()
    for words in ({f" {word}" for word in inner}, first):
        assert [w for w in words if len(tokenizer(w).input_ids) != 1] == []


def test_captions_use_known_words_or_deliberate_nonsense(tokenizer) -> None:
    random = Random(0)
    subjects = [captions.Subject(thing, "red", 96) for thing in THINGS]
    texts = [
        captions.caption(
            random.sample(subjects, 1 + i % 2), random.choice(list(captions.PLACES)), random
        )
        for i in range(1000)
    ]
    odd = [t for t in texts if len(tokenizer(t).input_ids) > len(re.findall(r"\w+|[,.]", t))]
    assert len(odd) < 0.12 * len(texts)
    assert len(set(texts)) > 900


@pytest.mark.parametrize("text", ["Ünïcode 猫 \U0001f600", "\n\t x", "ASTRONAUT 42!", ""])
def test_any_text_survives(tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer(text).input_ids) == text


def test_corpus_tokens_are_the_tokenizers(corpus: Corpus, tokenizer) -> None:
    assert corpus.vocab_size % 64 == 0
    assert corpus.vocab_size >= len(tokenizer)
    assert corpus.pad_id == tokenizer.pad_token_id
    evaluation = corpus.evaluation("held-out", 8, 0)
    pairs = [*zip(evaluation.prompts, evaluation.tokens, evaluation.lengths, strict=True)]
    pairs += zip(captions.NEGATIVES, corpus.empty_tokens, corpus.empty_lengths, strict=True)
    for text, tokens, length in pairs:
        assert tokens[:length].tolist() == tokenizer(tok.TEMPLATE.format(text)).input_ids
        assert (tokens[length:] == corpus.pad_id).all()


def test_corpus_is_deterministic(path: Path, tmp_path: Path) -> None:
    build.build_corpus(tmp_path / "again.npz", specs=COUNT)
    assert (tmp_path / "again.npz").read_bytes() == path.read_bytes()


def test_held_out_pairs_are_never_trained() -> None:
    specs = build.draw_specs(20_000, np.random.default_rng(0)).astype(int)
    places, tints = build.held_out_pairs()
    column = dict(zip(FIELDS, specs.T, strict=True))
    two = column["object2"] >= 0
    assert not places[column["object"], column["background"]].any()
    assert not places[column["object2"], column["background"]][two].any()
    assert not tints[column["object"], column["colour"]].any()
    assert not tints[column["object2"], column["colour2"]][two].any()
    assert 0.04 < places.mean() < 0.06
    assert 0.07 < tints[:, 1:].mean() < 0.11
    flagship = (column["object"] == 0) & (column["background"] == 0)
    assert flagship.sum() > 5


def test_evaluation_keeps_its_promise(corpus: Corpus) -> None:
    places, tints = build.held_out_pairs()
    for split, expected in (("seen", False), ("held-out", True)):
        e = corpus.evaluation(split, 64, 1)
        new = places[e.objects, e.backgrounds] | tints[e.objects, e.colours]
        assert (new == expected).all()
        assert corpus.objects[e.objects[0]] in e.prompts[0]
    with pytest.raises(ValueError, match="held-out"):
        corpus.evaluation("test", 1, 0)


def test_pictures_differ_and_stay_in_range(corpus: Corpus) -> None:
    pictures = corpus.pictures(torch.arange(8))
    assert pictures.shape == (8, 3, 256, 256)
    assert pictures.dtype == torch.float32
    assert pictures.min() >= -1
    assert pictures.max() <= 1
    gaps = (pictures[:, None] - pictures[None]).abs().mean((2, 3, 4)) + torch.eye(8)
    assert gaps.min() > 0.01


def test_two_objects_stand_in_the_order_of_the_spec(corpus: Corpus) -> None:
    ghost, heart = corpus.objects.index("ghost"), corpus.objects.index("heart")
    place = {"background": corpus.backgrounds.index("plain white"), "left": 16, "left2": 128}
    empty = corpus.compose(spec(corpus, **place, object=ghost, bottom=-200))
    pair = corpus.compose(spec(corpus, **place, object=ghost, object2=heart))
    swapped = corpus.compose(spec(corpus, **place, object=heart, object2=ghost))
    redness = (pair - empty)[0, 0] - (pair - empty)[0, 1]
    assert redness[:, 128:].sum() > 3 * redness[:, :112].sum().clamp(min=1)
    assert not torch.equal(pair, swapped)


def test_tint_changes_only_the_object(corpus: Corpus) -> None:
    star = corpus.objects.index("star")
    natural = corpus.compose(spec(corpus, object=star))
    blue = corpus.compose(spec(corpus, object=star, colour=corpus.colours.index("blue")))
    changed = (natural - blue).abs().amax(1)[0] > 0.05
    assert changed[112:208, 80:176].float().mean() > 0.3
    assert not changed[:112].any()
    assert not changed[208:].any()


def test_backgrounds_repeat_with_the_seed(corpus: Corpus) -> None:
    first, again, other = (draw_bank(1, device="cpu", seed=seed) for seed in (0, 0, 1))
    assert first.shape == (len(corpus.backgrounds), 1, 3, 256, 256)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_sprites_fit_the_list() -> None:
    rgba = load_sprites()
    assert rgba.shape == (len(THINGS), 128, 128, 4)
    assert rgba[:, -1, :, 3].any(-1).all(), "every sprite stands on the lowest row"


def test_judge_counts_what_it_sees(corpus: Corpus) -> None:
    evaluation = corpus.evaluation("seen", 4, 0)
    judge = Judge((len(corpus.objects), len(corpus.backgrounds), len(corpus.colours))).eval()
    result = accuracy(judge, corpus.compose(evaluation.specs), evaluation)
    assert result["object"] == sum(result["object-correct"]) / 4
    with pytest.raises(ValueError, match="3 pictures for 4 prompts"):
        accuracy(judge, corpus.compose(evaluation.specs[:3]), evaluation)
