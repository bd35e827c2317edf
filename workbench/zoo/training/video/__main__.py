"""Train the shipped video model again: vae, dit, evaluate on a GPU, corpus and export anywhere."""

from __future__ import annotations

import argparse
from pathlib import Path

from workbench.zoo.training.command_line import asked_recipe, five_commands
from workbench.zoo.training.optim import choose_kernels
from workbench.zoo.training.video.recipe import VideoArchitecture, VideoRecipe


def parser() -> argparse.ArgumentParser:
    """The five commands."""
    top, commands = five_commands("python -m workbench.zoo.training.video", __doc__)
    for name, what in (("vae", "vae.safetensors"), ("dit", "folder")):
        commands[name].add_argument(
            "--start", type=Path, help=f"{what} of an earlier run to go on from"
        )
    return top


def run(arguments: argparse.Namespace) -> None:
    """Run vae, dit or evaluate."""
    from workbench.zoo.training.video.codec import ClipCodec
    from workbench.zoo.training.video.corpus import ClipCorpus
    from workbench.zoo.training.video.evaluate import judge_folder
    from workbench.zoo.training.video.train_dit import train_dit
    from workbench.zoo.training.video.train_vae import train_vae

    choose_kernels()
    device, shape = arguments.device, VideoArchitecture()
    recipe = asked_recipe(VideoRecipe(), arguments)
    corpus = ClipCorpus.load(arguments.corpus, device=device, variants=recipe.variants)
    common = {"recipe": recipe, "shape": shape, "device": device}
    if arguments.command == "vae":
        train_vae(corpus, arguments.out, start=arguments.start, **common)
        return
    codec = ClipCodec.load(arguments.vae, shape, device)
    if arguments.command == "dit":
        train_dit(corpus, codec, arguments.out, start=arguments.start, **common)
    else:
        judge_folder(arguments.weights, codec, corpus, arguments.out, recipe=recipe, shape=shape)


def main() -> None:
    """Run the command that was asked for."""
    arguments = parser().parse_args()
    if arguments.command == "corpus":
        from workbench.zoo.training.video.build import build_corpus

        build_corpus(arguments.out)
    elif arguments.command == "export":
        from workbench.zoo.training.video.export import export

        print("\n".join(export(arguments.weights, arguments.out, vae=arguments.vae)))
    else:
        run(arguments)


if __name__ == "__main__":
    main()
