"""The video model trains, is judged, and ends as a pipeline that draws."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from workbench.zoo.models import EMBEDDED
from workbench.zoo.training.artefacts import Log
from workbench.zoo.training.command_line import asked_recipe
from workbench.zoo.training.dit import run
from workbench.zoo.training.video import __main__ as commands
from workbench.zoo.training.video import train_dit, train_vae
from workbench.zoo.training.video.build import build_corpus
from workbench.zoo.training.video.codec import ClipCodec
from workbench.zoo.training.video.corpus import HEADS, ClipCorpus
from workbench.zoo.training.video.evaluate import accuracy, judge_folder, train_judge
from workbench.zoo.training.video.export import export
from workbench.zoo.training.video.recipe import VideoArchitecture, VideoRecipe

CPU = torch.device("cpu")
SHIPPED = EMBEDDED / "wan" / "training"
TINY = VideoArchitecture(vae_width=8, layers=2, heads=1, side=32)
RECIPE = VideoRecipe(
    variants=1, vae_steps=3, polish_steps=2, vae_clips=2, vae_warmup=1, dit_steps=4, dit_batch=4,
    dit_warmup=1, pool=6, refresh=2, refresh_every=2, measured=2, judge_steps=1, judge_clips=4,
    judged=2, sampling_steps=2,
)  # fmt: skip


class SmallClips(ClipCorpus):
    """The corpus at a quarter of its size."""

    def compose(self, specs: Tensor) -> Tensor:
        return F.avg_pool3d(super().compose(specs), (1, 4, 4))


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small work is slower on many threads, ten times so on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> ClipCorpus:
    path = tmp_path_factory.mktemp("clips") / "clips.npz"
    build_corpus(path, specs=50)
    return SmallClips.load(path, device="cpu", variants=1)


@pytest.fixture(scope="module")
def vae(corpus: ClipCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny VAE trained for a few steps."""
    folder = tmp_path_factory.mktemp("vae")
    train_vae.train_vae(corpus, folder, recipe=RECIPE, shape=TINY, device=CPU)
    return folder


@pytest.fixture(scope="module")
def trainer(corpus: ClipCorpus, vae: Path) -> train_dit.ClipTrainer:
    torch.manual_seed(0)
    codec = ClipCodec.load(vae / "vae.safetensors", TINY, CPU)
    return train_dit.ClipTrainer(corpus, codec, RECIPE, TINY, CPU)


@pytest.fixture(scope="module")
def dit(corpus: ClipCorpus, vae: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny transformer trained for a few steps and judged."""
    folder = tmp_path_factory.mktemp("dit")
    codec = ClipCodec.load(vae / "vae.safetensors", TINY, CPU)
    train_dit.train_dit(corpus, codec, folder, recipe=RECIPE, shape=TINY, device=CPU)
    return folder


def test_vae_training_writes_its_log(vae: Path) -> None:
    log = json.loads((vae / "log.json").read_text())
    assert [len(log["loss"][stage]) for stage in ("vae", "polish")] == [3, 2]
    assert all(0 < loss < 5 for curve in log["loss"].values() for _, loss in curve)
    assert set(log["psnr_db"]) == {"mean", "p10", "min", "bf16_weights"}
    assert len(log["psnr_db_by_frame"]) == 9
    assert VideoRecipe(**log["recipe"]) == RECIPE
    assert (vae / "reconstructions.png").stat().st_size > 0


def test_vae_training_goes_on_from_weights(corpus: ClipCorpus, vae: Path, tmp_path: Path) -> None:
    nothing = replace(RECIPE, vae_steps=0, polish_steps=0)
    again = train_vae.train_vae(
        corpus, tmp_path, recipe=nothing, shape=TINY, device=CPU, start=vae / "vae.safetensors"
    )
    before = ClipCodec.load(vae / "vae.safetensors", TINY, CPU)
    for name, weight in again.vae.state_dict().items():
        assert torch.equal(weight, before.vae.state_dict()[name]), name


def test_latents_are_unit_sized(corpus: ClipCorpus, vae: Path) -> None:
    codec = ClipCodec.load(vae / "vae.safetensors", TINY, CPU)
    latents = codec.encode(corpus.clips(torch.arange(16)))
    assert latents.shape == (16, *(16, 3, 4, 4))
    assert float(latents.std()) == pytest.approx(1, rel=0.4)


def test_a_given_first_frame_is_clean_and_does_not_count(
    trainer: train_dit.ClipTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {}

    def nothing(self, latents: Tensor, tokens: Tensor, lengths: Tensor, t: Tensor) -> Tensor:
        seen.update(latents=latents, t=t, lengths=lengths)
        wrong = torch.zeros_like(latents)
        wrong[:, :, 0] = 1e3
        return wrong

    monkeypatch.setattr(type(trainer.model), "velocity", nothing)
    trainer.recipe = replace(RECIPE, image_share=1.0)
    loss = float(trainer.loss())
    trainer.recipe = RECIPE
    assert 0.5 < loss < 10  # noise of 1 and latents of about 1: the thousand is not in it
    assert not seen["t"][:, 0].any()
    assert bool((seen["t"][:, 1:] > 0).all())
    assert torch.equal(seen["t"][:, 1], seen["t"][:, 2])
    first = seen["latents"][:, None, :, 0]
    pool = trainer.pool.latents[None, :, :, 0].float()
    assert float((first - pool).abs().amax((2, 3, 4)).amin(1).max()) < 1e-6


def test_captions_are_sometimes_left_out(trainer: train_dit.ClipTrainer) -> None:
    tokens, lengths = trainer.captions.draw(torch.arange(50).repeat(40))
    dropped = lengths == 1
    assert 0.06 < float(dropped.float().mean()) < 0.14
    assert (tokens[dropped] == trainer.captions.empty).all()
    assert ((tokens > 0).sum(1) == lengths).all()


def test_training_moves_all_that_counts(trainer: train_dit.ClipTrainer, tmp_path: Path) -> None:
    model = trainer.optimizer.model
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    run(trainer, Log(tmp_path, CPU), tmp_path)
    assert int(trainer.optimizer.taken) == RECIPE.dit_steps
    assert bool(trainer.losses.isfinite().all())
    for name, weight in model.named_parameters():
        assert bool(weight.isfinite().all()), name
        assert not torch.equal(weight, before[name]), name
    for name, weight in trainer.states()["transformer"].items():
        if weight.ndim == 2 and weight.shape[1] % 128 == 0:
            assert float(weight.unflatten(1, (-1, 128)).abs().amax(-1).min()) > 0, name
    trainer.save(tmp_path)
    trainer.load(tmp_path)
    assert int(trainer.optimizer.taken) == 0


def test_the_judge_counts_what_it_sees(corpus: ClipCorpus) -> None:
    judge = train_judge(corpus, steps=1, count=4, seed=0)
    evaluation = corpus.evaluation("seen", 3)
    clips = corpus.compose(evaluation.specs)
    right = accuracy(judge, clips, evaluation.specs)
    assert {head: len(said) for head, said in right.items()} == dict.fromkeys(HEADS, 3)
    with pytest.raises(ValueError, match="2 clips for 3 specs"):
        accuracy(judge, clips[:2], evaluation.specs)


def test_evaluation_is_written_and_repeated_from_disk(
    corpus: ClipCorpus, vae: Path, dit: Path, tmp_path: Path
) -> None:
    found = json.loads((dit / "log.json").read_text())["evaluation"]
    kinds = [f"{k}, {s}" for s in ("seen", "held-out") for k in ("text", "image", "real")]
    assert list(found) == kinds
    details = json.loads((dit / "evaluation.json").read_text())
    assert len(details["held-out"]["prompts"]) == RECIPE.judged
    codec = ClipCodec.load(vae / "vae.safetensors", TINY, CPU)
    again = judge_folder(dit, codec, corpus, tmp_path, recipe=RECIPE, shape=TINY)
    assert list(again) == kinds
    assert (tmp_path / "image.png").stat().st_size > 0


def test_exported_folder_draws(vae: Path, dit: Path, tmp_path: Path) -> None:
    from diffusers import WanImageToVideoPipeline, WanPipeline
    from PIL import Image

    from workbench.wan_prompts import clean_alike

    clean_alike()
    folder = tmp_path / "wan"
    lines = export(dit, folder, TINY, vae / "vae.safetensors")
    assert any(line.endswith("transformer/diffusion_pytorch_model.safetensors") for line in lines)
    card = json.loads((folder / "card.json").read_text())
    index = json.loads((folder / "model_index.json").read_text())
    assert index["expand_timesteps"] is True
    assert index["boundary_ratio"] is None
    assert card["sampling"]["num_frames"] == 9
    readme = (folder / "README.md").read_text()
    assert all(digest in readme for digest in card["sha256"].values())
    assert "{" not in readme
    call = card["sampling"] | {"output_type": "np"}
    call.pop("fps")
    pipeline = WanPipeline.from_pretrained(folder, dtype=torch.bfloat16)
    pipeline.set_progress_bar_config(disable=True)
    assert pipeline("a ball rolling to the right on grass", **call).frames.shape == (
        1,
        9,
        32,
        32,
        3,
    )
    images = WanImageToVideoPipeline.from_pipe(pipeline, image_encoder=None, image_processor=None)
    picture = Image.new("RGB", (32, 32), "green")
    made = images(picture, "a ball rolling to the right on grass", **call).frames
    assert made.shape == (1, 9, 32, 32, 3)


def test_the_recipe_is_changed_by_name() -> None:
    line = ["vae", "--corpus", "c", "--out", "o", "--smoke", "--set", "vae_steps=7", "vae_rate=.1"]
    recipe = asked_recipe(VideoRecipe(), commands.parser().parse_args(line))
    assert recipe == replace(VideoRecipe().smoke(), vae_steps=7, vae_rate=0.1)
    with pytest.raises(ValueError, match="'steps'"):
        asked_recipe(VideoRecipe(), commands.parser().parse_args([*line[:5], "--set", "steps=7"]))


def test_the_shipped_architecture_suits_groups_and_two_ranks() -> None:
    shape = VideoArchitecture()
    assert shape.latent_grid == (3, 16, 16)
    assert shape.token_grid == (3, 8, 8)
    assert shape.width % 128 == 0
    assert shape.heads % 2 == 0


def test_the_defaults_are_those_of_the_shipped_model() -> None:
    """Each log holds what its own stage was run with."""
    logs = {stage: json.loads((SHIPPED / f"{stage}.json").read_text()) for stage in ("vae", "dit")}
    for name, value in vars(VideoRecipe()).items():
        stage = "vae" if name.startswith(("vae_", "polish_", "latent_", "kl_")) else "dit"
        assert logs[stage]["recipe"][name] == value, name
