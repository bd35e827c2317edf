"""Assemble trained weights into a folder that diffusers' `WanPipeline` loads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.torchvision_ops import define_missing
from workbench.zoo.training.assembly import fill, save, vae_config, write_checksums
from workbench.zoo.training.tokenizer import embedding_rows
from workbench.zoo.training.video.recipe import VideoArchitecture

if TYPE_CHECKING:
    from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanTransformer3DModel
    from transformers import UMT5EncoderModel

SCHEDULER = {"prediction_type": "flow_prediction", "use_flow_sigmas": True, "flow_shift": 5.0}
"""vLLM-Omni shifts by 5 unless it is told otherwise, and reads no scheduler configuration."""


def scheduler() -> UniPCMultistepScheduler:
    """A new one, as the pipeline has."""
    define_missing()
    from diffusers import UniPCMultistepScheduler

    return UniPCMultistepScheduler(**SCHEDULER)


def transformer_class(shape: VideoArchitecture) -> WanTransformer3DModel:
    """The real class with random weights."""
    define_missing()
    from diffusers import WanTransformer3DModel

    return WanTransformer3DModel(
        num_attention_heads=shape.heads,
        attention_head_dim=shape.head_width,
        in_channels=shape.latent_channels,
        out_channels=shape.latent_channels,
        text_dim=shape.text_width,
        ffn_dim=4 * shape.width,
        num_layers=shape.layers,
    )


def vae_class(config: dict[str, Any]) -> AutoencoderKLWan:
    """The real class with random weights, from what `vae_config.json` holds."""
    define_missing()
    from diffusers import AutoencoderKLWan

    return AutoencoderKLWan(**config)


def text_encoder_class(shape: VideoArchitecture, rows: int) -> UMT5EncoderModel:
    """The real class with random weights and `rows` of token embedding."""
    define_missing()
    from transformers import UMT5Config, UMT5EncoderModel

    return UMT5EncoderModel(
        UMT5Config(
            vocab_size=rows, d_model=shape.text_width, d_ff=shape.text_hidden,
            d_kv=shape.text_width // shape.text_heads, num_heads=shape.text_heads,
            num_layers=shape.text_layers, feed_forward_proj="gated-gelu",
        )
    )  # fmt: skip


def _untrained(name: str) -> bool:
    """The encoder's own name for the embedding is tied to the shared one."""
    return name == "encoder.embed_tokens.weight"


def export(
    weights: Path, folder: Path, shape: VideoArchitecture | None = None, vae: Path | None = None
) -> list[str]:
    """Write the pipeline folder in bf16, with card and logs where the training left its logs.

    Args:
        weights: Folder of the dit command.
        folder: Where the pipeline goes; created.
        shape: Architecture that was trained; None is the shipped one.
        vae: `vae.safetensors`, its configuration beside it; None looks in `weights`.

    Returns:
        Lines "sha256  path" of all files, as also written to `SHA256SUMS`.
    """
    import diffusers as d
    from transformers import AutoTokenizer

    from workbench.zoo.tiny_tokenizers import build_t5
    from workbench.zoo.training.video.card import write_card
    from workbench.zoo.training.video.sentences import lexicon

    shape, vae = shape or VideoArchitecture(), vae or weights / "vae.safetensors"
    rows = embedding_rows(build_t5(folder / "tokenizer", lexicon()))
    parts = {
        "text_encoder": text_encoder_class(shape, rows),
        "transformer": transformer_class(shape),
        "vae": vae_class(vae_config(vae)),
    }
    fill(parts, weights, vae, untrained=_untrained)
    save(parts, folder)
    schedule = scheduler()
    schedule.save_pretrained(folder / "scheduler")
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    d.WanPipeline(
        tokenizer=tokenizer, scheduler=schedule, expand_timesteps=True, **parts
    ).save_config(folder)
    write_card(folder, shape, weights / "log.json", vae.with_name("log.json"))
    return write_checksums(folder)
