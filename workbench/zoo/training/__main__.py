"""Train the shipped model again: vae, dit and evaluate on a GPU, corpus and export anywhere."""

from __future__ import annotations

import argparse

from workbench.zoo.training.command_line import asked_recipe, five_commands
from workbench.zoo.training.optim import choose_kernels
from workbench.zoo.training.recipe import Architecture, Recipe


def parser() -> argparse.ArgumentParser:
    """The five commands."""
    return five_commands("python -m workbench.zoo.training", __doc__)[0]


def on_device(arguments: argparse.Namespace) -> None:
    """Run vae, dit or evaluate."""
    from workbench.zoo.training.codec import Codec
    from workbench.zoo.training.corpus import Corpus
    from workbench.zoo.training.dit import train_dit
    from workbench.zoo.training.evaluate import judge_folder
    from workbench.zoo.training.vae import train_vae

    choose_kernels()
    device, shape = arguments.device, Architecture()
    corpus = Corpus.load(arguments.corpus, device=device)
    common = {"recipe": asked_recipe(Recipe(), arguments), "shape": shape, "device": device}
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
