"""The options of an ``auto-round`` command line, by AutoRound's names."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any, NoReturn

from workbench.errors import SpecError

NO_MEANING = (
    "output_dir", "disable_low_cpu_mem_usage", "disable_model_free", "disable_torch_compile",
    "low_gpu_mem_usage", "model_free",
)  # fmt: skip
"""Options that change nothing in what is written here."""


def parse(line: str) -> dict[str, Any]:
    """Options of an ``auto-round`` line, by AutoRound's names; both spellings with - and _ do.

    Raises:
        SpecError: not such a line, an unknown option, or no model.
    """
    words = shlex.split(line.replace("\\\n", " "))
    if not words or Path(words[0]).name not in ("auto-round", "auto_round"):
        raise SpecError(f"{line[:40]!r} is no auto-round command line; it begins with 'auto-round'")
    given = vars(_parser().parse_args([_underscored(word) for word in words[1:]]))
    options = {name: value for name, value in given.items() if value is not None}
    if "model" not in options:
        raise SpecError("the line names no model; add --model with a hub id or a folder")
    return options


def option_names() -> set[str]:
    """Every option that such a line may have."""
    return {action.dest for action in _parser()._actions}


def _underscored(word: str) -> str:
    """``--num-inference-steps`` as AutoRound itself spells it; values stay as they are."""
    if not word.startswith("--"):
        return word
    name, sign, value = word.partition("=")
    return "--" + name[2:].replace("-", "_") + sign + value


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SpecError(f"auto-round: {message}; known here are {', '.join(_options(self))}")


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return sorted(text for action in parser._actions for text in action.option_strings)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="auto-round", add_help=False, allow_abbrev=False)
    parser.add_argument("--model", "--model_name", "--model_name_or_path")
    for name in ("scheme", "format", "dataset", "ignore_layers", "output_dir"):
        parser.add_argument(f"--{name}")
    for name in ("bits", "group_size", "iters", "nsamples", "batch_size", "seed",
                 "gradient_accumulate_steps"):  # fmt: skip
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--num_inference_steps", "--calib_num_inference_steps", type=int)
    for name in ("lr", "guidance_scale"):
        parser.add_argument(f"--{name}", type=float)
    for name in ("disable_opt_rtn", "asym", "trust_remote_code", *NO_MEANING[1:]):
        parser.add_argument(f"--{name}", action="store_true", default=None)
    return parser
