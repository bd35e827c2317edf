"""Tiny pipelines with random weights: the real diffusers classes, to test all but quality.

2 heads of 128 channels, so tensor parallelism 2 and groups of 128 fit; 20 MB or less each.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.errors import SpecError
from workbench.zoo.builders import Shape, build
from workbench.zoo.families import family_named

HEADS, WIDTH, INNER = 2, 256, 512
_ATTENTION = {"num_attention_heads": HEADS, "attention_head_dim": WIDTH // HEADS}
_SAMPLING = {"height": 128, "width": 128, "num_inference_steps": 4}
_VIDEO_VAE = {"base_dim": 16, "dim_mult": [1, 2, 2, 2], "num_res_blocks": 1}
_IMAGE_VAE = {
    "block_out_channels": (16, 32, 32, 32), "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4, "latent_channels": 16, "norm_num_groups": 8,
    "scaling_factor": 0.3611, "shift_factor": 0.1159, "use_quant_conv": False,
    "use_post_quant_conv": False,
}  # fmt: skip


def build_tiny(
    family: str,
    folder: str | Path,
    *,
    seed: int = 0,
    layers: int = 2,
    experts: int = 1,
    heads: int = HEADS,
    ti2v: bool = False,
) -> Path:
    """Write a tiny random pipeline in diffusers layout; the same arguments give the same bytes.

    Args:
        family: ``qwen-image``, ``flux``, ``wan`` or ``wan-i2v``.
        folder: Created if missing.
        seed: Of the weights.
        layers: Transformer blocks, of each kind that the family has.
        experts: 2 gives Wan its second transformer (Wan 2.2 A14B); 1 elsewhere.
        heads: Attention heads of 128 channels, at least 1; 4 for layouts that share them out twice.
        ti2v: Wan as TI2V-5B has it, from a prompt with or without a first frame: timesteps for each
            patch, and a VAE of 16 x 16 pixels a latent.

    Returns:
        The folder, resolved.

    Raises:
        SpecError: an unknown family, 2 experts where there is one, or ti2v elsewhere.
    """
    if family not in _SHAPES:
        raise SpecError(f"no tiny pipeline of family {family!r}; there are {', '.join(_SHAPES)}")
    if experts not in ((1, 2) if family_named(family).draws_videos and not ti2v else (1,)):
        raise SpecError(f"experts={experts} of {family}: wan has 1 or 2, the others 1")
    if ti2v and family != "wan":
        raise SpecError(f"ti2v=True of {family}: it is a form of wan")
    shape = _ti2v(layers) if ti2v else _SHAPES[family](layers, experts)
    wide = {**shape.transformer, "num_attention_heads": heads}
    return build(replace(shape, transformer=wide), folder, seed=seed)


def _qwen_image(layers: int, experts: int) -> Shape:
    return Shape(
        family="qwen-image",
        transformer={**_ATTENTION, "num_layers": layers, "joint_attention_dim": WIDTH},
        vae=_VIDEO_VAE,
        text_width=WIDTH,
        sampling={**_SAMPLING, "true_cfg_scale": 4.0, "negative_prompt": " "},
    )


def _flux(layers: int, experts: int) -> Shape:
    reads = {"joint_attention_dim": WIDTH, "pooled_projection_dim": WIDTH, "guidance_embeds": True}
    return Shape(
        family="flux",
        transformer={**_ATTENTION, "num_layers": layers, "num_single_layers": layers, **reads},
        vae=_IMAGE_VAE,
        text_width=WIDTH,
        pooled_width=WIDTH,
        sampling={**_SAMPLING, "guidance_scale": 3.5},
    )


def _wan(layers: int, experts: int) -> Shape:
    video: dict[str, Any] = {"num_frames": 5, "fps": 16.0}
    return Shape(
        family="wan",
        transformer={**_ATTENTION, "num_layers": layers, "text_dim": WIDTH, "ffn_dim": INNER},
        vae=_VIDEO_VAE,
        text_width=WIDTH,
        pipeline={"boundary_ratio": 0.875} if experts == 2 else {},
        sampling={**_SAMPLING, "guidance_scale": 5.0, "negative_prompt": "", **video},
    )


def _wan_i2v(layers: int, experts: int) -> Shape:
    wan = _wan(layers, experts)
    # 16 channels of noise, 16 of the first frame, 4 of the mask that says which frames are given
    channels = {"in_channels": 36, "out_channels": 16}
    return replace(wan, family="wan-i2v", transformer={**wan.transformer, **channels})


def _ti2v(layers: int) -> Shape:
    wan = _wan(layers, 1)
    latent = {"z_dim": 48, "latents_mean": [0.0] * 48, "latents_std": [1.0] * 48}
    pixels = {"in_channels": 12, "out_channels": 12, "patch_size": 2, "scale_factor_spatial": 16}
    vae = {**_VIDEO_VAE, "decoder_base_dim": 16, "is_residual": True, **pixels, **latent}
    return replace(
        wan,
        transformer={**wan.transformer, "in_channels": 48, "out_channels": 48},
        vae=vae,
        pipeline={"expand_timesteps": True},
    )


_SHAPES = {"qwen-image": _qwen_image, "flux": _flux, "wan": _wan, "wan-i2v": _wan_i2v}
