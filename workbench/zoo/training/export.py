"""Assemble trained weights into a folder that diffusers' `QwenImagePipeline` loads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from workbench.torchvision_ops import define_missing
from workbench.zoo.training.assembly import fill, save, vae_config, write_checksums
from workbench.zoo.training.recipe import Architecture
from workbench.zoo.training.sampling import SCHEDULER
from workbench.zoo.training.tokenizer import PAD, build_tokenizer, embedding_rows

if TYPE_CHECKING:
    from diffusers import AutoencoderKLQwenImage, QwenImageTransformer2DModel
    from transformers import Qwen2_5_VLForConditionalGeneration

MODEL_INDEX = {
    "_class_name": "QwenImagePipeline",
    "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
    "text_encoder": ["transformers", "Qwen2_5_VLForConditionalGeneration"],
    "tokenizer": ["transformers", "Qwen2Tokenizer"],
    "transformer": ["diffusers", "QwenImageTransformer2DModel"],
    "vae": ["diffusers", "AutoencoderKLQwenImage"],
}
MROPE = [16, 24, 24]
"""Split of the 64 rotary rates over time, height, width; text has one position on all three."""


def transformer_class(shape: Architecture) -> QwenImageTransformer2DModel:
    """The real class with random weights."""
    define_missing()
    from diffusers import QwenImageTransformer2DModel

    return QwenImageTransformer2DModel(
        in_channels=4 * shape.latent_channels,
        out_channels=shape.latent_channels,
        num_layers=shape.layers,
        num_attention_heads=shape.heads,
        attention_head_dim=shape.head_width,
        joint_attention_dim=shape.text_width,
        axes_dims_rope=shape.rope_axes,
    )


def vae_class(config: dict[str, Any]) -> AutoencoderKLQwenImage:
    """The real class with random weights, from what `vae_config.json` holds."""
    define_missing()
    from diffusers import AutoencoderKLQwenImage

    return AutoencoderKLQwenImage(**config)


def text_encoder_class(
    shape: Architecture, vocab: dict[str, int]
) -> Qwen2_5_VLForConditionalGeneration:
    """The real class with random weights; its vision tower is tiny and never used."""
    define_missing()
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    width = shape.text_width
    ends = {"bos_token_id": None, "eos_token_id": vocab["<|im_end|>"], "pad_token_id": vocab[PAD]}
    text = {
        "vocab_size": embedding_rows(len(vocab)), "hidden_size": width,
        "intermediate_size": shape.text_hidden, "num_hidden_layers": shape.text_layers,
        "num_attention_heads": 1, "num_key_value_heads": 1, "rms_norm_eps": 1e-6,
        "max_position_embeddings": 4096, "tie_word_embeddings": True, **ends,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": MROPE},
    }  # fmt: skip
    vision = {
        "depth": 1, "hidden_size": width, "intermediate_size": 2 * width, "num_heads": 2,
        "out_hidden_size": width, "fullatt_block_indexes": [0],
    }  # fmt: skip
    special = ("image_pad", "video_pad", "vision_start")
    image, video, start = (vocab[f"<|{name}|>"] for name in special)
    config = Qwen2_5_VLConfig(
        text_config=text, vision_config=vision, tie_word_embeddings=True, image_token_id=image,
        video_token_id=video, vision_start_token_id=start,
        vision_end_token_id=vocab["<|vision_end|>"],
    )  # fmt: skip
    torch.manual_seed(0)
    return Qwen2_5_VLForConditionalGeneration(config)


def _untrained(name: str) -> bool:
    """The vision tower keeps its random weights, and the head is tied to the embedding."""
    return "visual" in name or name == "lm_head.weight"


def export(
    weights: Path, folder: Path, shape: Architecture | None = None, vae: Path | None = None
) -> list[str]:
    """Write the pipeline folder in bf16.

    Args:
        weights: Folder of the dit command.
        folder: Where the pipeline goes; created.
        shape: Architecture that was trained; None is the shipped one.
        vae: `vae.safetensors`, its configuration beside it; None looks in `weights`.

    Returns:
        Lines "sha256  path" of all files, as also written to `SHA256SUMS`.
    """
    shape, vae = shape or Architecture(), vae or weights / "vae.safetensors"
    vocab = build_tokenizer(folder / "tokenizer")
    parts = {
        "text_encoder": text_encoder_class(shape, vocab),
        "transformer": transformer_class(shape),
        "vae": vae_class(vae_config(vae)),
    }
    fill(parts, weights, vae, untrained=_untrained)
    save(parts, folder)
    _write_configs(folder)
    return write_checksums(folder)


def _write_configs(folder: Path) -> None:
    import diffusers

    version = {"_diffusers_version": diffusers.__version__}
    scheduler = {"_class_name": "FlowMatchEulerDiscreteScheduler", **version, **SCHEDULER}
    for place, content in (
        ("model_index", MODEL_INDEX | version),
        ("scheduler/scheduler_config", scheduler),
    ):
        path = (folder / place).with_suffix(".json")
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content, indent=2) + "\n")
