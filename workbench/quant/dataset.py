"""The user's prompts for calibration, read from a file, counted and checked."""

from __future__ import annotations

import csv
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from workbench.errors import SpecError
from workbench.zoo.families import family_of

LOG = logging.getLogger(__name__)
CAPTION = "caption"


def read_dataset(file: str | Path, nsamples: int | None = None) -> tuple[str, ...]:
    """Prompts of a .tsv with a column ``caption``, or of a .txt with one prompt a line.

    Args:
        file: ``.tsv`` as AutoRound takes it (columns ``id`` and ``caption``), or ``.txt``.
        nsamples: How many to take, from the top; None takes all.

    Returns:
        Distinct prompts in the order of the file; how many twins were dropped is logged.

    Raises:
        SpecError: no such file, another kind of file, no column ``caption``, an empty prompt, or
            fewer distinct prompts than ``nsamples``.
    """
    path = Path(file).expanduser()
    if path.suffix not in (".tsv", ".txt") or not path.is_file():
        raise SpecError(
            f"dataset={str(file)!r} is no .tsv or .txt file here; give a .tsv with the columns id "
            "and caption, or a .txt with one prompt a line"
        )
    rows = _table(path) if path.suffix == ".tsv" else _lines(path)
    empty = [number for number, text in rows if not text]
    if empty:
        raise SpecError(f"{path} has no prompt in row {empty[0]} ({len(empty)} in all); fill it in")
    prompts = tuple(dict.fromkeys(text for _, text in rows))
    if len(prompts) < len(rows):
        LOG.warning("%s: %d repeated prompts dropped", path.name, len(rows) - len(prompts))
    wanted = len(prompts) if nsamples is None else nsamples
    if not 1 <= wanted <= len(prompts):
        raise SpecError(
            f"nsamples={nsamples}: {path} holds {len(prompts)} distinct prompts; "
            "ask for as many or fewer, or add prompts"
        )
    return prompts[:wanted]


def _table(path: Path) -> list[tuple[int, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_MINIMAL)
        columns = reader.fieldnames or []
        if CAPTION not in columns:
            raise SpecError(f"{path} has the columns {', '.join(columns)}; it needs {CAPTION!r}")
        return [(number, (row[CAPTION] or "").strip()) for number, row in enumerate(reader, 2)]


def _lines(path: Path) -> list[tuple[int, str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    while lines and not lines[-1].strip():  # the line break at the end is no prompt
        lines.pop()
    return [(number, line.strip()) for number, line in enumerate(lines, 1)]


def warn_truncated(source: Path, prompts: Sequence[str]) -> int:
    """Log how many prompts are longer than a text encoder of the pipeline reads.

    Args:
        source: Pipeline in diffusers layout.
        prompts: As they would be given to it.

    Returns:
        How many are cut by at least one of its tokenizers.
    """
    cut: set[str] = set()
    for folder in sorted(source.glob("tokenizer*")):
        limit, lengths = _lengths(folder, prompts, family_of(source).prompt_tokens)
        long = [text for text, length in zip(prompts, lengths, strict=True) if length > limit]
        if long:
            LOG.warning(
                "%d of %d calibration prompts are longer than the %d tokens that the %s keeps; "
                "the rest of them is cut: %r ...",
                len(long), len(prompts), limit, folder.name, long[0][:60],
            )  # fmt: skip
        cut.update(long)
    return len(cut)


def _lengths(
    folder: Path, prompts: Iterable[str], pipeline: int | None
) -> tuple[int, tuple[int, ...]]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    limit = min(tokenizer.model_max_length, pipeline or tokenizer.model_max_length)
    lengths = (len(tokenizer(text, truncation=False)["input_ids"]) for text in prompts)
    return limit, tuple(lengths)
