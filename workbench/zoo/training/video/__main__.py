"""Train the shipped video model again: vae, dit, evaluate on a GPU, corpus and export anywhere."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from workbench.zoo.training.optim import choose_kernels
from workbench.zoo.training.recipe import changed
from workbench.zoo.training.video.recipe import VideoArchitecture, VideoRecipe


def parser() -> argparse.ArgumentParser:
    """The five commands."""
    top = argparse.ArgumentParser(
        prog="python -m workbench.zoo.training.video", description=__doc__
    )
    commands = top.add_subparsers(dest="command", required=True)
    corpus = commands.add_parser("corpus", help="write captions and clip specifications")
    corpus.add_argument("out", type=Path)
    vae = _on_device(commands, "vae", "train the VAE")
    vae.add_argument("--start", type=Path, help="vae.safetensors of an earlier run to go on from")
    dit = _on_device(commands, "dit", "train the transformer and judge it")
    dit.add_argument("--start", type=Path, help="folder of an earlier run to go on from")
    evaluate = _on_device(commands, "evaluate", "judge a model")
    evaluate.add_argument("--weights", type=Path, required=True, help="folder of dit")
    for command in (dit, evaluate):
        command.add_argument(
            "--vae", type=Path, required=True, help="vae.safetensors, vae_config.json beside it"
        )
    export = commands.add_parser("export", help="assemble a diffusers pipeline")
    export.add_argument("--weights", type=Path, required=True, help="folder of dit")
    export.add_argument("--vae", type=Path, help="vae.safetensors, by default in --weights")
    export.add_argument("--out", type=Path, required=True)
    return top


def _on_device(
    commands: argparse._SubParsersAction, name: str, what: str
) -> argparse.ArgumentParser:
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
    return command


def recipe_of(arguments: argparse.Namespace) -> VideoRecipe:
    """The shipped recipe, shortened by --smoke and changed by --set."""
    recipe = VideoRecipe().smoke() if arguments.smoke else VideoRecipe()
    return changed(recipe, arguments.set)


def run(arguments: argparse.Namespace) -> None:
    """Run vae, dit or evaluate."""
    from workbench.zoo.training.video.codec import ClipCodec
    from workbench.zoo.training.video.corpus import ClipCorpus
    from workbench.zoo.training.video.evaluate import judge_folder
    from workbench.zoo.training.video.train_dit import train_dit
    from workbench.zoo.training.video.train_vae import train_vae

    choose_kernels()
    device, shape, recipe = (
        torch.device(arguments.device),
        VideoArchitecture(),
        recipe_of(arguments),
    )
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
