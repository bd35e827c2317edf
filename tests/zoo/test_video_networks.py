"""The twins of the video model equal the real classes, alone and joined in the pipelines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from workbench.torchvision_ops import define_missing
from workbench.zoo.training.artefacts import load_weights
from workbench.zoo.training.codec import config
from workbench.zoo.training.recipe import Architecture
from workbench.zoo.training.vae_net import PictureVAE, deflate
from workbench.zoo.training.video import codec, export
from workbench.zoo.training.video.dit_net import TEXT_LENGTH, Transformer, patches
from workbench.zoo.training.video.recipe import VideoArchitecture
from workbench.zoo.training.video.sampling import ClipModel, pipeline_time
from workbench.zoo.training.video.text_net import TextEncoder
from workbench.zoo.training.video.vae_net import PICTURE_VAE, ClipVAE

define_missing()
SHIPPED = VideoArchitecture()
TINY = VideoArchitecture(vae_width=8, layers=2, heads=1, side=32)
LENGTH, ROWS = 31, 64


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small work is slower on many threads, ten times so on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def shaken(model: nn.Module, seed: int) -> nn.Module:
    """The model with every parameter moved, so that no zero or one hides a mistake."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.05 * torch.randn(weight.shape, generator=generator))
    return model.eval()


def difference(one: Tensor, other: Tensor) -> float:
    return float((one - other).detach().abs().max())


def unit_codec(shape: VideoArchitecture, vae: ClipVAE) -> codec.ClipCodec:
    """Statistics that are no zeros and ones, so that forgetting them is seen."""
    channels = torch.arange(shape.latent_channels).float().view(1, -1, 1, 1, 1)
    return codec.ClipCodec(vae, 0.01 * channels, 0.5 + 0.01 * channels)


def real_vae(twin: ClipVAE, shape: VideoArchitecture):
    real = export.vae_class(config(shape, unit_codec(shape, twin))).eval()
    real.load_state_dict(twin.state_dict())
    return real


@torch.no_grad()
@pytest.mark.parametrize("frames", [1, 5, 9])
def test_vae_taken_whole_equals_diffusers_in_chunks(frames: int) -> None:
    twin = shaken(ClipVAE(SHIPPED), 0)
    real = real_vae(twin, SHIPPED)
    clips = torch.rand(2, 3, frames, 32, 32) * 2 - 1
    mean, log_variance = twin.encode(clips)
    posterior = real.encode(clips).latent_dist
    assert difference(mean, posterior.mean) <= 1e-4
    assert difference(log_variance.clamp(-30, 20), posterior.logvar) <= 1e-4
    latents = torch.randn(2, 16, 1 + (frames - 1) // 4, 4, 4)
    assert difference(twin.decode(latents).clamp(-1, 1), real.decode(latents).sample) <= 1e-4


@torch.no_grad()
def test_the_first_latent_frame_is_the_first_picture_alone() -> None:
    twin = shaken(ClipVAE(TINY), 1)
    clips = torch.rand(1, 3, 9, 32, 32) * 2 - 1
    alone, whole = twin.encode(clips[:, :, :1])[0], twin.encode(clips)[0]
    assert difference(alone, whole[:, :, :1]) <= 1e-5
    assert difference(whole[:, :, 1], whole[:, :, 0]) > 1e-3


@torch.no_grad()
def test_it_starts_as_the_picture_vae_of_every_fourth_frame() -> None:
    clip_vae, picture_vae = ClipVAE(SHIPPED), PictureVAE(Architecture())
    clip_vae.load_pictures()
    weights = {name: value.float() for name, value in load_weights(PICTURE_VAE).items()}
    picture_vae.load_state_dict(deflate(weights))
    clips = torch.rand(1, 3, 9, 32, 32) * 2 - 1
    latents = clip_vae.encode(clips)[0]
    pictures = picture_vae.encode(clips[0, :, ::4].transpose(0, 1))[0]
    assert difference(latents[0].transpose(0, 1), pictures) <= 1e-4
    made, expected = clip_vae.decode(latents)[0].transpose(0, 1), picture_vae.decode(pictures)
    assert difference(made[[0, 4, 8]], expected) <= 1e-4
    assert difference(made[1], expected[1]) <= 1e-4  # frames between repeat the next


@torch.no_grad()
@pytest.mark.parametrize("given", [False, True], ids=["text", "first frame"])
def test_transformer_equals_diffusers(given: bool) -> None:
    twin = shaken(Transformer(SHIPPED, text_length=LENGTH), 2)
    real = export.transformer_class(SHIPPED).eval()
    real.load_state_dict(twin.state_dict())
    assert sum(p.numel() for p in real.parameters()) == pytest.approx(11.2e6, rel=0.01)
    latents, text = torch.randn(2, *(16, 3, 16, 16)), torch.randn(2, LENGTH, 128)
    text[0, 5:] = 0
    padded = torch.cat([text, text.new_zeros(2, TEXT_LENGTH - LENGTH, 128)], 1)
    t = torch.tensor([0.3, 0.9])
    by_frame = t[:, None] * torch.tensor([0.0 if given else 1.0, 1.0, 1.0])
    times = by_frame.repeat_interleave(64, 1) if given else t
    expected = real(latents, 1000 * times, padded, return_dict=False)[0]
    assert difference(twin(latents, text, by_frame), expected) <= 1e-4


def test_patches_are_as_a_convolution_sees_them() -> None:
    latents, layer = torch.randn(1, 16, 3, 4, 4), nn.Conv3d(16, 8, (1, 2, 2), (1, 2, 2))
    rows = nn.functional.linear(patches(latents), layer.weight.flatten(1), layer.bias)
    assert difference(rows, layer(latents).flatten(2).transpose(1, 2)) <= 1e-5


@torch.no_grad()
@pytest.mark.parametrize("length", [LENGTH, TEXT_LENGTH])
def test_text_encoder_equals_transformers(length: int) -> None:
    twin = shaken(TextEncoder(SHIPPED, ROWS, LENGTH), 3)
    real = export.text_encoder_class(SHIPPED, ROWS).eval()
    real.load_state_dict(twin.state_dict(), strict=False)
    real.tie_weights()
    tokens, lengths = torch.zeros(2, length, dtype=torch.long), torch.tensor([9, LENGTH])
    tokens[:, :LENGTH] = torch.randint(3, ROWS, (2, LENGTH))
    mask = torch.arange(length) < lengths[:, None]
    tokens *= mask
    states = (real(tokens, mask.long()).last_hidden_state * mask[..., None])[:, :LENGTH]
    assert difference(twin(tokens[:, :LENGTH], lengths), states) <= 1e-5


def test_times_are_those_of_the_scheduler() -> None:
    schedule = export.scheduler()
    schedule.set_timesteps(20)
    rounded = 1_000 * pipeline_time(schedule.sigmas[:-1])
    assert (rounded - schedule.timesteps).abs().max() <= 1
    assert schedule.sigmas[0] > 0.99
    even = torch.linspace(1, 1 / 20, 20)
    assert schedule.sigmas[:-1].tolist() == pytest.approx(
        (5 * even / (1 + 4 * even)).tolist(), abs=2e-2
    )


@pytest.fixture(scope="module")
def model() -> ClipModel:
    return ClipModel(
        unit_codec(TINY, shaken(ClipVAE(TINY), 4)),
        shaken(Transformer(TINY, text_length=LENGTH), 5),
        shaken(TextEncoder(TINY, ROWS, LENGTH), 6),
    )


def text_of(model: ClipModel, tokens: Tensor) -> Tensor:
    """States as the pipeline pads them, [B, 512, width]."""
    with torch.no_grad():
        states = model.text_encoder(tokens, (tokens > 0).sum(1))
    return nn.functional.pad(states, (0, 0, 0, TEXT_LENGTH - LENGTH))


def pipeline_parts(model: ClipModel) -> dict:
    transformer = export.transformer_class(TINY).eval()
    transformer.load_state_dict(model.transformer.state_dict())
    parts = {"tokenizer": None, "text_encoder": None, "transformer": transformer}
    return parts | {
        "vae": real_vae(model.codec.vae, TINY),
        "scheduler": export.scheduler(),
        "expand_timesteps": True,
    }


@torch.no_grad()
@pytest.mark.parametrize("given", [False, True], ids=["text", "first frame"])
def test_sampling_equals_the_pipeline(model: ClipModel, given: bool) -> None:
    from diffusers import WanImageToVideoPipeline, WanPipeline

    tokens = torch.zeros(2, LENGTH, dtype=torch.long)
    tokens[0, :4], tokens[1, :1] = torch.tensor([7, 8, 9, 1]), 1
    texts = text_of(model, tokens)
    size = {"height": 32, "width": 32, "num_frames": 9, "num_inference_steps": 3}
    noise = torch.randn(1, *model.latent_shape, generator=torch.Generator().manual_seed(7))
    call = size | {
        "prompt_embeds": texts[:1], "negative_prompt_embeds": texts[1:], "guidance_scale": 4.0,
        "latents": noise, "output_type": "pt",
    }  # fmt: skip
    first = None
    if given:
        picture = torch.rand(1, 3, 32, 32)
        first = model.codec.encode(2 * picture[:, :, None] - 1)
        made = WanImageToVideoPipeline(
            **pipeline_parts(model), image_processor=None, image_encoder=None
        )
        call["image"] = picture
    else:
        made = WanPipeline(**pipeline_parts(model))
    made.set_progress_bar_config(disable=True)
    expected = made(**call).frames  # [1, T, 3, H, W] in [0, 1]
    lengths = (tokens > 0).sum(1)
    clips = model.sample(
        (tokens[:1], lengths[:1]), (tokens[1:], lengths[1:]), steps=3, seed=7, first=first
    )
    assert clips.shape == (1, 3, 9, 32, 32)
    assert difference(clips[0].transpose(0, 1) / 2 + 0.5, expected[0]) <= 1e-3


def test_the_codec_is_read_back(model: ClipModel, tmp_path: Path) -> None:
    from workbench.zoo.training.artefacts import save_weights

    vae = model.codec.vae
    save_weights(tmp_path / "vae.safetensors", vae.state_dict())
    (tmp_path / "vae_config.json").write_text(json.dumps(config(TINY, model.codec)))
    again = codec.ClipCodec.load(tmp_path / "vae.safetensors", TINY, torch.device("cpu"))
    assert difference(again.mean, model.codec.mean) <= 1e-6
    clips = torch.rand(1, 3, 9, 32, 32)
    assert difference(again.encode(clips), model.codec.encode(clips)) < 0.2  # weights in bf16
