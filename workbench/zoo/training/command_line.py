"""The five commands that train a shipped model again, of pictures and of clips."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from workbench.zoo.training.recipe import R, changed


def five_commands(
    prog: str, about: str
) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser, and each command's own by its name: corpus, vae, dit, evaluate, export."""
    top = argparse.ArgumentParser(prog=prog, description=about)
    added = top.add_subparsers(dest="command", required=True)
    corpus = added.add_parser("corpus", help="write captions and specifications of what is drawn")
    corpus.add_argument("out", type=Path)
    for name, what in (
        ("vae", "train the VAE"),
        ("dit", "train the transformer"),
        ("evaluate", "judge a model"),
    ):
        _on_device(added.add_parser(name, help=what))
    commands = added.choices
    for name in ("dit", "evaluate"):
        commands[name].add_argument(
            "--vae", type=Path, required=True, help="vae.safetensors, vae_config.json beside it"
        )
    export = added.add_parser("export", help="assemble a diffusers pipeline")
    export.add_argument("--vae", type=Path, help="vae.safetensors, by default in --weights")
    export.add_argument("--out", type=Path, required=True)
    for name in ("evaluate", "export"):
        commands[name].add_argument("--weights", type=Path, required=True, help="folder of dit")
    return top, dict(commands)


def asked_recipe(recipe: R, arguments: argparse.Namespace) -> R:
    """The shipped recipe, shortened by ``--smoke`` and changed by ``--set``."""
    return changed(recipe.smoke() if arguments.smoke else recipe, arguments.set)


def _on_device(command: argparse.ArgumentParser) -> None:
    command.add_argument("--corpus", type=Path, required=True)
    command.add_argument("--out", type=Path, required=True)
    command.add_argument(
        "--device", type=torch.device, default="cuda" if torch.cuda.is_available() else "cpu"
    )
    command.add_argument("--smoke", action="store_true", help="a few steps of everything")
    command.add_argument(
        "--set", nargs="*", default=[], metavar="FIELD=NUMBER", help="change the recipe"
    )
