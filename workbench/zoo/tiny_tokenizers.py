"""Small real tokenizers for the tiny pipelines: no network, the same bytes every time."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from workbench.zoo.training.captions import lexicon
from workbench.zoo.training.tokenizer import build_tokenizer, learn_merges

CLIP_LENGTH = 77
T5_LENGTH = 512
_ASCII = [chr(code) for code in range(33, 127)]
_END = "</w>"  # how CLIP marks the last letter of a word
_SPACE = "\u2581"  # how SentencePiece spells a space


def build_qwen(folder: Path) -> int:
    """Write the Qwen2 tokenizer of the trained model; its prompt template prefix is 34 tokens.

    Returns:
        Number of tokens, special ones included.
    """
    return len(build_tokenizer(folder))


def build_clip(folder: Path) -> int:
    """Write a CLIP tokenizer: words are whole, BOS and EOS are the last two ids.

    Returns:
        Number of tokens. CLIP pools at the highest id, so EOS must be it.
    """
    from transformers import CLIPTokenizer

    spelt = learn_merges({word[:-1] + word[-1].upper() for word in _plain_words() if len(word) > 1})
    merges = [(_with_end(left), _with_end(right)) for left, right in spelt]
    letters = [*_ASCII, *(letter + _END for letter in _ASCII)]
    tokens = [*letters, *("".join(pair) for pair in merges), "<|startoftext|>", "<|endoftext|>"]
    vocab = {token: index for index, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=CLIP_LENGTH)
    tokenizer.save_pretrained(folder)
    return len(tokenizer)


def build_t5(folder: Path, words: Iterable[str] | None = None) -> int:
    """Write a T5 tokenizer, which UMT5 shares: a unigram model of words and single letters.

    Args:
        folder: Created if missing.
        words: Each becomes one token; None takes those of the picture captions.

    Returns:
        Number of tokens.
    """
    from transformers import T5Tokenizer

    whole = _plain_words() if words is None else set(words)
    pieces = [(_SPACE + word, -2.0) for word in sorted(whole)]
    letters = [(letter, -6.0) for letter in (_SPACE, *_ASCII)]
    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    vocab = [*special, *pieces, *letters]
    tokenizer = T5Tokenizer(vocab=vocab, extra_ids=0, model_max_length=T5_LENGTH)
    tokenizer.save_pretrained(folder)
    return len(tokenizer)


def _plain_words() -> set[str]:
    return {
        word.lower() for part in lexicon() for word in part if word.isascii() and word.isalpha()
    }


def _with_end(piece: str) -> str:
    """`taB` -> `tab</w>`: a capital stands for a word's last letter while merges are learnt."""
    return piece.lower() + _END if piece[-1].isupper() else piece
