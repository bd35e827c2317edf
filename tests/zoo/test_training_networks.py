"""The trained networks equal the real classes, train, and end as a pipeline that draws."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from workbench.torchvision_ops import define_missing
from workbench.zoo.training import codec, dit, vae
from workbench.zoo.training.artefacts import Log, save_weights, write_png
from workbench.zoo.training.dit_net import Transformer
from workbench.zoo.training.export import (
    MROPE,
    export,
    text_encoder_class,
    transformer_class,
    vae_class,
)
from workbench.zoo.training.muon import orthogonalised
from workbench.zoo.training.recipe import Architecture, Recipe
from workbench.zoo.training.sampling import SCHEDULER, networks, sigmas
from workbench.zoo.training.text_net import TextEncoder
from workbench.zoo.training.tokenizer import PAD, PREFIX_TOKENS, embedding_rows
from workbench.zoo.training.vae_net import PictureVAE, deflate, inflate

define_missing()
CPU = torch.device("cpu")
SHIPPED = Architecture()
TINY = Architecture(vae_width=8, layers=2, heads=1)
RECIPE = Recipe(
    vae_steps=3, polish_steps=2, dit_steps=4, vae_pictures=1, vae_warmup=1, dit_warmup=1,
    dit_batch=4, pool=8, refresh=2, refresh_every=2, measured=2, judge_steps=2, judged=8,
)  # fmt: skip
VOCAB = {
    token: index
    for index, token in enumerate(
        (PAD, "<|im_end|>", "<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>")
    )
} | {f"word {index}": 6 + index for index in range(200)}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Small work is slower on many threads, ten times so on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@dataclass
class FakeCorpus:
    """Four smooth pictures with random captions, behind the interface of `Corpus`."""

    vocab_size: int = len(VOCAB)
    pad_id: int = 0

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(6, len(VOCAB), (4, 2, PREFIX_TOKENS + 9), generator=generator)
        self.lengths = torch.randint(
            PREFIX_TOKENS + 6, PREFIX_TOKENS + 10, (4, 2), generator=generator
        )
        self.empty_tokens, self.empty_lengths = self.tokens[:3, 0], self.lengths[:3, 0]
        coarse = torch.rand(4, 3, 8, 8, generator=generator) * 2 - 1
        self.drawn = nn.functional.interpolate(coarse, size=256, mode="bilinear")

    def __len__(self) -> int:
        return 4

    def pictures(self, index: Tensor) -> Tensor:
        return self.drawn[index]


def shaken(model: nn.Module, seed: int) -> nn.Module:
    """The model with every parameter moved, so that no zero or one hides a mistake."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.05 * torch.randn(weight.shape, generator=generator))
    return model.eval()


def difference(one: Tensor, other: Tensor) -> float:
    return float((one - other).detach().abs().max())


def unit_codec(shape: Architecture) -> codec.Codec:
    return codec.Codec(PictureVAE(shape), torch.zeros(1, 16, 1, 1), torch.ones(1, 16, 1, 1))


def config(shape: Architecture) -> dict[str, Any]:
    return codec.config(shape, unit_codec(shape))


@torch.no_grad()
def test_vae_equals_diffusers() -> None:
    twin = shaken(PictureVAE(SHIPPED), 0)
    real = vae_class(config(SHIPPED)).eval()
    real.load_state_dict(inflate(twin.state_dict()))
    again = deflate(real.state_dict())
    assert all(torch.equal(value, again[name]) for name, value in twin.state_dict().items())
    pictures = torch.rand(2, 3, 64, 64) * 2 - 1
    mean, log_variance = twin.encode(pictures)
    posterior = real.encode(pictures[:, :, None]).latent_dist
    assert difference(mean, posterior.mean[:, :, 0]) <= 1e-5
    assert difference(log_variance, posterior.logvar[:, :, 0]) <= 1e-5
    latents = torch.randn(2, 16, 8, 8)
    expected = real.decode(latents[:, :, None]).sample[:, :, 0]
    assert difference(twin.decode(latents).clamp(-1, 1), expected) <= 1e-5


@torch.no_grad()
def test_transformer_equals_diffusers() -> None:
    twin = shaken(Transformer(SHIPPED, side=16, text_length=16), 1)
    real = transformer_class(SHIPPED).eval()
    real.load_state_dict(twin.state_dict())
    assert sum(p.numel() for p in real.parameters()) == pytest.approx(12.17e6, rel=0.01)
    latents, text = torch.randn(2, 256, 64), torch.randn(2, 16, SHIPPED.text_width)
    mask = torch.arange(16) < torch.tensor([[9], [16]])
    t = torch.tensor([0.3, 0.9])
    expected = real(
        latents, text, mask, t, img_shapes=[[(1, 16, 16)]] * 2, return_dict=False
    )[0]  # fmt: skip
    assert difference(twin(latents, text, mask, t), expected) <= 1e-4


@torch.no_grad()
def test_text_encoder_equals_transformers() -> None:
    twin = shaken(TextEncoder(SHIPPED, embedding_rows(len(VOCAB))), 2)
    real = text_encoder_class(SHIPPED, VOCAB).eval()
    missing, unexpected = real.load_state_dict(twin.state_dict(), strict=False)
    real.tie_weights()
    assert not unexpected
    assert all("visual" in name or "lm_head" in name for name in missing)
    assert 2 * sum(MROPE) == SHIPPED.text_width
    tokens = torch.randint(6, len(VOCAB), (2, 20))
    mask = (torch.arange(20) < torch.tensor([[13], [20]])).long()
    states = real(input_ids=tokens, attention_mask=mask, output_hidden_states=True)
    assert (
        difference(
            (twin(tokens) - states.hidden_states[-1]) * mask[..., None], 0 * tokens[..., None]
        )
        <= 1e-5
    )


def test_schedule_and_packing_equal_the_pipeline() -> None:
    from diffusers import FlowMatchEulerDiscreteScheduler, QwenImagePipeline

    scheduler = FlowMatchEulerDiscreteScheduler(**SCHEDULER)
    scheduler.set_timesteps(sigmas=[1 - i / 20 for i in range(20)], mu=0.5)
    assert sigmas(20) == pytest.approx(scheduler.sigmas.tolist(), abs=1e-6)
    plain = unit_codec(TINY)
    pictures = torch.rand(1, 3, 256, 256)
    latents = codec.latents_of(plain.vae, pictures)
    packed = QwenImagePipeline._pack_latents(latents[:, :, None], 1, 16, 32, 32)
    assert torch.equal(plain.encode(pictures), packed)


def test_muon_makes_singular_values_alike() -> None:
    values = torch.linalg.svdvals(orthogonalised(torch.randn(3, 40, 24)))
    assert float(values.min()) > 0.5
    assert float(values.max()) < 1.3


def test_png_is_read_back(tmp_path: Path) -> None:
    from PIL import Image

    pixels = torch.randint(0, 256, (5, 7, 3), dtype=torch.uint8)
    write_png(tmp_path / "x.png", pixels)
    assert list(Image.open(tmp_path / "x.png").tobytes()) == pixels.flatten().tolist()


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, dit.Trainer, dict[str, Tensor]]:
    """Folder of a tiny VAE and transformer trained for a few steps, with the weights before."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("trained")
    made = vae.train_vae(FakeCorpus(), folder, recipe=RECIPE, shape=TINY, device=CPU)
    trainer = dit.Trainer(FakeCorpus(), made, RECIPE, TINY, CPU)
    before = {n: p.detach().clone() for n, p in trainer.optimizer.model.named_parameters()}
    dit.run(trainer, Log(folder, CPU), folder)
    trainer.save(folder)
    return folder, trainer, before


def test_vae_training_writes_its_log(trained: tuple[Path, dit.Trainer, dict[str, Tensor]]) -> None:
    log = json.loads((trained[0] / "log.json").read_text())
    curve = [loss for _, loss in log["loss"]["vae"]]
    assert len(curve) == RECIPE.vae_steps
    assert curve[-1] < curve[0]
    assert set(log["psnr_db"]) == {"mean", "p10", "min"}
    assert (trained[0] / "reconstructions.png").stat().st_size > 0


def test_transformer_training_moves_all_that_counts(
    trained: tuple[Path, dit.Trainer, dict[str, Tensor]],
) -> None:
    _, trainer, before = trained
    assert int(trainer.optimizer.taken) == RECIPE.dit_steps
    assert bool(trainer.losses.isfinite().all())
    assert bool((trainer.losses > 0).all())
    unread = ("txt_mlp", "attn.to_add_out", "attn.add_q_proj", "attn.norm_added_q")
    unread = [f"transformer_blocks.1.{part}" for part in unread]
    for name, weight in trainer.optimizer.model.named_parameters():
        assert bool(weight.isfinite().all()), name
        assert torch.equal(weight, before[name]) == any(part in name for part in unread), name


def test_no_group_of_weights_is_zero(trained: tuple[Path, dit.Trainer, dict[str, Tensor]]) -> None:
    for name, weight in trained[1].states()["transformer"].items():
        if weight.ndim == 2 and weight.shape[1] % 128 == 0:
            assert float(weight.unflatten(1, (-1, 128)).abs().amax(-1).min()) > 0, name


def test_exported_folder_draws(tmp_path: Path) -> None:
    from diffusers import QwenImagePipeline

    from workbench.zoo.training.tokenizer import build_tokenizer

    rows = embedding_rows(len(build_tokenizer(tmp_path / "tokenizer")))
    for name, network in zip(
        ("text_encoder", "transformer"), networks(TINY, rows, 16, CPU), strict=True
    ):
        save_weights(tmp_path / f"{name}.safetensors", network.state_dict())
    save_weights(tmp_path / "vae.safetensors", inflate(PictureVAE(TINY).state_dict()))
    (tmp_path / "vae_config.json").write_text(json.dumps(config(TINY)))
    lines = export(tmp_path, tmp_path / "pipeline", TINY)
    assert any(line.endswith("transformer/diffusion_pytorch_model.safetensors") for line in lines)
    pipeline = QwenImagePipeline.from_pretrained(tmp_path / "pipeline", dtype=torch.bfloat16)
    pipeline.set_progress_bar_config(disable=True)
    picture = pipeline(
        "a teapot", negative_prompt=" ", height=256, width=256, num_inference_steps=2
    ).images[0]  # fmt: skip
    assert picture.size == (256, 256)
