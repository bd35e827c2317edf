"""The big models' own sizes, to fill with random weights where speed and memory are measured.

Transformer and VAE have every size of the published configs; the text encoders are two layers deep,
as wide as what the transformer reads. Nothing that such a pipeline draws means anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from workbench.errors import SpecError
from workbench.zoo.builders import Shape, build

_1024 = {"height": 1024, "width": 1024}
_480P = {"height": 480, "width": 832, "num_frames": 49}
_HEADS_24 = {"num_attention_heads": 24, "attention_head_dim": 128}
_WAN: dict[str, Any] = {
    "attention_head_dim": 128, "freq_dim": 256, "text_dim": 4096, "cross_attn_norm": True,
    "qk_norm": "rms_norm_across_heads", "patch_size": (1, 2, 2),
}  # fmt: skip
# black-forest-labs/FLUX.1-dev
FLUX_1_DEV = Shape(
    family="flux",
    transformer={
        **_HEADS_24, "num_layers": 19, "num_single_layers": 38, "in_channels": 64,
        "joint_attention_dim": 4096, "pooled_projection_dim": 768, "guidance_embeds": True,
        "axes_dims_rope": (16, 56, 56),
    },
    vae={
        "block_out_channels": (128, 256, 512, 512), "layers_per_block": 2,
        "down_block_types": ("DownEncoderBlock2D",) * 4,
        "up_block_types": ("UpDecoderBlock2D",) * 4,
        "latent_channels": 16, "norm_num_groups": 32, "scaling_factor": 0.3611,
        "shift_factor": 0.1159, "use_quant_conv": False, "use_post_quant_conv": False,
        "sample_size": 1024,
    },
    text_width=4096,
    pooled_width=768,
    sampling={**_1024, "num_inference_steps": 28, "guidance_scale": 3.5},
)  # fmt: skip
# Qwen/Qwen-Image; diffusers' defaults are its VAE
QWEN_IMAGE = Shape(
    family="qwen-image",
    transformer={
        **_HEADS_24, "num_layers": 60, "in_channels": 64, "out_channels": 16,
        "joint_attention_dim": 3584, "axes_dims_rope": (16, 56, 56),
    },
    vae={},
    text_width=3584,
    sampling={**_1024, "num_inference_steps": 50, "true_cfg_scale": 4.0, "negative_prompt": " "},
)  # fmt: skip
# Wan-AI/Wan2.2-TI2V-5B-Diffusers; its latents' means and deviations are left at 0 and 1
WAN_TI2V_5B = Shape(
    family="wan",
    transformer={
        **_WAN, "num_layers": 30, "num_attention_heads": 24, "ffn_dim": 14336,
        "in_channels": 48, "out_channels": 48,
    },
    vae={
        "base_dim": 160, "decoder_base_dim": 256, "z_dim": 48, "is_residual": True,
        "in_channels": 12, "out_channels": 12, "patch_size": 2, "scale_factor_spatial": 16,
        "latents_mean": [0.0] * 48, "latents_std": [1.0] * 48,
    },
    text_width=4096,
    pipeline={"expand_timesteps": True},
    sampling={**_480P, "num_inference_steps": 50, "guidance_scale": 5.0, "negative_prompt": "",
              "fps": 24.0},
)  # fmt: skip
# Wan-AI/Wan2.2-T2V-A14B-Diffusers; diffusers' defaults are its VAE
WAN_T2V_A14B = Shape(
    family="wan",
    transformer={
        **_WAN, "num_layers": 40, "num_attention_heads": 40, "ffn_dim": 13824,
        "in_channels": 16, "out_channels": 16,
    },
    vae={},
    text_width=4096,
    pipeline={"boundary_ratio": 0.875},
    sampling={**_480P, "num_inference_steps": 40, "guidance_scale": 4.0, "negative_prompt": "",
              "fps": 16.0},
)  # fmt: skip
SHAPES: Mapping[str, Shape] = MappingProxyType({
    "FLUX.1-dev": FLUX_1_DEV,
    "Qwen-Image": QWEN_IMAGE,
    "Wan2.2-TI2V-5B": WAN_TI2V_5B,
    "Wan2.2-T2V-A14B": WAN_T2V_A14B,
})  # fmt: skip


def build_shape(
    name: str, folder: str | Path, *, seed: int = 0, layers: int | None = None, on: str = "cpu"
) -> Path:
    """Write a pipeline of a big model's sizes, with random weights.

    Args:
        name: A key of SHAPES.
        folder: Created if missing; FLUX.1-dev takes 24 GB, Qwen-Image 41 GB.
        seed: Of the weights.
        layers: Blocks of each kind, fewer than the model's own; None takes all.
        on: Torch device that draws the weights; a GPU does it in seconds.

    Returns:
        The folder, resolved.

    Raises:
        SpecError: an unknown name, or more layers than the model has.
    """
    if name not in SHAPES:
        raise SpecError(f"there is no shape {name!r}; there are {', '.join(SHAPES)}")
    return build(shortened(SHAPES[name], layers), folder, seed=seed, on=on)


def shortened(shape: Shape, layers: int | None) -> Shape:
    """The same with at most ``layers`` blocks of each kind.

    Raises:
        SpecError: none, or more than the model has.
    """
    if layers is None:
        return shape
    depth = shape.transformer["num_layers"]
    if not 1 <= layers <= depth:
        raise SpecError(f"layers={layers}: this model has {depth}; give 1 to {depth}")
    kinds = [name for name in ("num_layers", "num_single_layers") if name in shape.transformer]
    return replace(shape, transformer={**shape.transformer, **dict.fromkeys(kinds, layers)})
