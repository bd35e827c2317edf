"""A small Qwen2 tokenizer in which every caption word is one token.

The `tokenizers` library's own trainer breaks ties differently from run to run, so the merges are
computed here: plain byte-pair encoding over the lexicon until each word is whole.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

from workbench.zoo.training.captions import lexicon

# Text and prefix length of diffusers' QwenImagePipeline.prompt_template_encode.
TEMPLATE = (
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, "
    "quantity, text, spatial relationships of the objects and background:<|im_end|>\n"
    "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
)
PREFIX_TOKENS, SUFFIX_TOKENS = 34, 5
PAD = "<|endoftext|>"
SPECIAL = (
    PAD, "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>",
    "<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>",
    "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
_SPACE = "\u0120"  # how byte-level vocabularies spell a space


def build_tokenizer(folder: Path) -> dict[str, int]:
    """Write tokenizer.json, vocab.json, merges.txt and tokenizer_config.json, byte for byte.

    Args:
        folder: Created if missing; `transformers.AutoTokenizer.from_pretrained(folder)` reads it.

    Returns:
        Vocabulary from token to id, special tokens included.
    """
    folder.mkdir(parents=True, exist_ok=True)
    merges = learn_merges(_words())
    tokens = [*_byte_letters(), *("".join(pair) for pair in merges)]
    vocab = {token: index for index, token in enumerate(tokens)}
    special = {token: len(vocab) + index for index, token in enumerate(SPECIAL)}
    _write(folder / "vocab.json", vocab)
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_bytes(("\n".join(lines) + "\n").encode())
    _write(folder / "tokenizer.json", _tokenizer_json(vocab, merges, special))
    _write(folder / "tokenizer_config.json", _config(special))
    return vocab | special


def embedding_rows(vocab_size: int) -> int:
    """Vocabulary size rounded up to a multiple of 64, the height of the embedding matrix."""
    return -(-vocab_size // 64) * 64


def learn_merges(words: set[str]) -> list[tuple[str, str]]:
    """Byte-pair encoding with ties broken by spelling.

    Args:
        words: Words spelt in byte letters; each becomes one token.

    Returns:
        Merges, most frequent pair first.
    """
    pieces = [list(word) for word in sorted(words)]
    merges = []
    while pairs := Counter(pair for word in pieces for pair in pairwise(word)):
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        pieces = [_merged(word, best) for word in pieces if len(word) > 1]
    return merges


def _merged(word: list[str], pair: tuple[str, str]) -> list[str]:
    out: list[str] = []
    for piece in word:
        if out and (out[-1], piece) == pair:
            out[-1] += piece
        else:
            out.append(piece)
    return out


def _words() -> set[str]:
    inner, first = lexicon()
    template = re.findall(r"[ ]?[A-Za-z]+", re.sub(r"<[^>]*>", "", TEMPLATE))
    return {_SPACE + w for w in inner} | first | {w.replace(" ", _SPACE) for w in template}


def _byte_letters() -> list[str]:
    """The 256 letters of GPT-2's byte alphabet: printable bytes themselves, others from U+0100."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b) for b in printable] + [chr(256 + i) for i in range(256 - len(printable))]


def _tokenizer_json(
    vocab: dict[str, int], merges: list[tuple[str, str]], special: dict[str, int]
) -> dict[str, object]:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
    from tokenizers import pre_tokenizers as pre
    from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    words = pre.Split(Regex(PRETOKENIZE_REGEX), behavior="isolated")
    letters = pre.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre.Sequence([words, letters])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in special])
    return json.loads(tokenizer.to_str())


def _config(special: dict[str, int]) -> dict[str, object]:
    plain = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
    return {
        "tokenizer_class": "Qwen2Tokenizer",
        "add_prefix_space": False,
        "added_tokens_decoder": {
            str(index): {"content": token, "special": True, **plain}
            for token, index in special.items()
        },
        "additional_special_tokens": [token for token in special if token != PAD],
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 131072,
        "pad_token": PAD,
        "split_special_tokens": False,
        "unk_token": None,
    }


def _write(path: Path, content: object) -> None:
    text = json.dumps(content, ensure_ascii=False, indent=2, sort_keys=False)
    path.write_bytes((text + "\n").encode())
