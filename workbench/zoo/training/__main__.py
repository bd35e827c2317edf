"""Train the shipped model again: vae, dit and evaluate on a GPU, corpus and export anywhere."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from workbench.zoo.training.optim import choose_kernels
from workbench.zoo.training.recipe import Architecture, Recipe, changed


def parser() -> argparse.ArgumentParser:
    """The five commands."""
    top = argparse.ArgumentParser(prog="python -m workbench.zoo.training", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    corpus = commands.add_parser("corpus", help="write captions and picture specifications")
    corpus.add_argument("out", type=Path)
    for name, what in (
        ("vae", "train the VAE"),
        ("dit", "train the transformer"),
        ("evaluate", "judge a model"),
    ):
        command = commands.add_parser(name, help=what)
        command.add_argument("--corpus", type=Path, required=True)
        command.add_argument("--out", type=Path, required=True)
        command.add_argument(
            "--device", type=torch.device, default="cuda" if torch.cuda.is_available() else "cpu"
        )
        command.add_argument("--smoke", action="store_true", help="a few steps of everything")
        command.add_argument(
            "--set", nargs="*", default=[], metavar="FIELD=NUMBER", help="change the recipe"
        )
        if name != "vae":
            command.add_argument(
                "--vae", type=Path, required=True, help="vae.safetensors, vae_config.json beside it"
            )
    commands.choices["evaluate"].add_argument(
        "--weights", type=Path, required=True, help="folder of dit"
    )
    export = commands.add_parser("export", help="assemble a diffusers pipeline")
    export.add_argument("--weights", type=Path, required=True, help="folder of dit")
    export.add_argument("--vae", type=Path, help="vae.safetensors, by default in --weights")
    export.add_argument("--out", type=Path, required=True)
    return top


def recipe_of(arguments: argparse.Namespace) -> Recipe:
    """The shipped recipe, shortened by --smoke and changed by --set."""
    recipe = Recipe().smoke() if arguments.smoke else Recipe()
    return changed(recipe, arguments.set)


def on_device(arguments: argparse.Namespace) -> None:
    """Run vae, dit or evaluate."""
    from workbench.zoo.training.codec import Codec
    from workbench.zoo.training.corpus import Corpus
    from workbench.zoo.training.dit import train_dit
    from workbench.zoo.training.evaluate import judge_folder
    from workbench.zoo.training.vae import train_vae

    choose_kernels()
    device, shape = torch.device(arguments.device), Architecture()
    corpus = Corpus.load(arguments.corpus, device=device)
    common = {"recipe": recipe_of(arguments), "shape": shape, "device": device}
    if arguments.command == "vae":
        train_vae(corpus, arguments.out, **common)
    elif arguments.command == "dit":
        train_dit(corpus, Codec.load(arguments.vae, shape, device), arguments.out, **common)
    else:
        judge_folder(arguments.weights, arguments.vae, corpus, arguments.out, **common)


def main() -> None:
    """Run the command that was asked for."""
    arguments = parser().parse_args()
    if arguments.command == "corpus":
        from workbench.zoo.training.build import build_corpus

        build_corpus(arguments.out)
    elif arguments.command == "export":
        from workbench.zoo.training.export import export

        print("\n".join(export(arguments.weights, arguments.out, vae=arguments.vae)))
    else:
        on_device(arguments)


if __name__ == "__main__":
    main()
