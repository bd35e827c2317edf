"""Tiny pipelines with random weights: the real diffusers classes, to test all but quality.

2 heads of 128 channels, so tensor parallelism 2 and groups of 128 fit; 20 MB or less each.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import store
from workbench.errors import SpecError
from workbench.torchvision_ops import define_missing
from workbench.zoo.models import CARD
from workbench.zoo.tiny_tokenizers import build_clip, build_qwen, build_t5

if TYPE_CHECKING:
    from torch import Tensor, dtype, nn

HEADS, WIDTH, INNER = 2, 256, 512
OUTLIER_EVERY, OUTLIER_GAIN = 64, 4.0  # input channels that a quantizer must cope with
_ATTENTION = {"num_attention_heads": HEADS, "attention_head_dim": WIDTH // HEADS}
_SAMPLING = {"height": 128, "width": 128, "num_inference_steps": 4}


def build_tiny(
    family: str, folder: str | Path, *, seed: int = 0, layers: int = 2, experts: int = 1
) -> Path:
    """Write a tiny random pipeline in diffusers layout; the same arguments give the same bytes.

    Args:
        family: ``qwen-image``, ``flux`` or ``wan``.
        folder: Created if missing.
        seed: Of the weights.
        layers: Transformer blocks, of each kind that the family has.
        experts: 2 gives Wan its second transformer (Wan 2.2 T2V-A14B); 1 elsewhere.

    Returns:
        The folder, resolved.

    Raises:
        SpecError: an unknown family, or 2 experts where there is one.
    """
    if family not in _BUILDERS:
        raise SpecError(f"no tiny pipeline of family {family!r}; there are {', '.join(_BUILDERS)}")
    if experts not in ((1, 2) if family == "wan" else (1,)):
        raise SpecError(f"experts={experts} of {family}: wan has 1 or 2, the others 1")
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    define_missing()
    sampling = _BUILDERS[family](folder, seed, layers, experts)
    store.write_json(folder / CARD, {"sampling": {**_SAMPLING, **sampling}})
    return folder


def _qwen_image(folder: Path, seed: int, layers: int, experts: int) -> dict[str, Any]:
    import diffusers as d
    from transformers import AutoTokenizer, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    vocabulary = build_qwen(folder / "tokenizer")
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    text = Qwen2_5_VLConfig(**_qwen_text(_rows(vocabulary), tokenizer.convert_tokens_to_ids))
    pipeline = d.QwenImagePipeline(
        tokenizer=tokenizer,
        text_encoder=Qwen2_5_VLForConditionalGeneration(text),
        vae=d.AutoencoderKLQwenImage(**_VIDEO_VAE),
        scheduler=d.FlowMatchEulerDiscreteScheduler(**_QWEN_SCHEDULE),
        transformer=d.QwenImageTransformer2DModel(
            **_ATTENTION, num_layers=layers, joint_attention_dim=WIDTH
        ),
    )
    _save(pipeline, folder, seed)
    return {"true_cfg_scale": 4.0, "negative_prompt": " "}


def _flux(folder: Path, seed: int, layers: int, experts: int) -> dict[str, Any]:
    import diffusers as d
    from transformers import AutoTokenizer, CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel

    clip_size, t5_size = build_clip(folder / "tokenizer"), build_t5(folder / "tokenizer_2")
    clip = {"vocab_size": clip_size, "bos_token_id": clip_size - 2, "eos_token_id": clip_size - 1}
    pipeline = d.FluxPipeline(
        tokenizer=AutoTokenizer.from_pretrained(folder / "tokenizer"),
        tokenizer_2=AutoTokenizer.from_pretrained(folder / "tokenizer_2"),
        text_encoder=CLIPTextModel(CLIPTextConfig(**clip, **_CLIP)),
        text_encoder_2=T5EncoderModel(T5Config(vocab_size=_rows(t5_size), **_T5)),
        vae=d.AutoencoderKL(**_IMAGE_VAE),
        scheduler=d.FlowMatchEulerDiscreteScheduler(**_FLUX_SCHEDULE),
        transformer=d.FluxTransformer2DModel(
            **_ATTENTION, num_layers=layers, num_single_layers=layers, guidance_embeds=True,
            joint_attention_dim=WIDTH, pooled_projection_dim=WIDTH,
        ),
    )  # fmt: skip
    _save(pipeline, folder, seed)
    return {"guidance_scale": 3.5}


def _wan(folder: Path, seed: int, layers: int, experts: int) -> dict[str, Any]:
    import diffusers as d
    from transformers import AutoTokenizer, UMT5Config, UMT5EncoderModel

    size = build_t5(folder / "tokenizer")
    denoiser = {**_ATTENTION, "num_layers": layers, "text_dim": WIDTH, "ffn_dim": INNER}
    pipeline = d.WanPipeline(
        tokenizer=AutoTokenizer.from_pretrained(folder / "tokenizer"),
        text_encoder=UMT5EncoderModel(UMT5Config(vocab_size=_rows(size), **_T5)),
        vae=d.AutoencoderKLWan(**_VIDEO_VAE),
        scheduler=d.UniPCMultistepScheduler(**_WAN_SCHEDULE),
        transformer=d.WanTransformer3DModel(**denoiser),
        transformer_2=d.WanTransformer3DModel(**denoiser) if experts == 2 else None,
        boundary_ratio=0.875 if experts == 2 else None,
    )
    _save(pipeline, folder, seed)
    return {"guidance_scale": 5.0, "negative_prompt": "", "num_frames": 5, "fps": 16.0}


def _save(pipeline: Any, folder: Path, seed: int) -> None:
    """Fill the networks and write everything but the tokenizers, which lie there as built."""
    from torch import bfloat16, float32, nn

    for name, component in pipeline.components.items():
        if isinstance(component, nn.Module):  # Wan ships its VAE in float32
            dtype = float32 if type(component).__name__ == "AutoencoderKLWan" else bfloat16
            _fill(component, f"{seed}:{name}", dtype)
            component.save_pretrained(folder / name)
        elif name == "scheduler":
            component.save_pretrained(folder / name)
    pipeline.save_config(folder)


def _fill(module: nn.Module, label: str, dtype: dtype) -> None:
    for name, parameter in module.named_parameters():
        parameter.data = _values(parameter.data, name, f"{label}:{name}").to(dtype)


def _values(like: Tensor, name: str, label: str) -> Tensor:
    """Ones for norms, small biases, N(0, 1/fan_in) with a few large input channels for the rest."""
    import torch

    if name.endswith("gamma") or (like.ndim == 1 and name.endswith("weight")):
        return torch.ones_like(like)
    digest = hashlib.sha256(label.encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
    values = torch.randn(like.shape, generator=generator)
    if like.ndim < 2:
        return values * 0.02
    values /= math.sqrt(like[0].numel())
    if like.ndim == 2:
        values[:, ::OUTLIER_EVERY] *= OUTLIER_GAIN
    return values


def _rows(vocabulary: int) -> int:
    """Embedding rows: a multiple of 64, as vLLM pads them."""
    return -(-vocabulary // 64) * 64


def _qwen_text(vocabulary: int, token_id: Callable[[str], int]) -> dict[str, Any]:
    size = {"hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": 2}
    heads = {"num_attention_heads": HEADS, "num_key_value_heads": 1}
    rope = {"rope_type": "default", "mrope_section": [16, 24, 24], "rope_theta": 1e6}
    vision = {"depth": 1, "hidden_size": 128, "num_heads": 1, "intermediate_size": 128,
              "out_hidden_size": WIDTH, "fullatt_block_indexes": [0]}  # fmt: skip
    return {
        "text_config": {"vocab_size": vocabulary, **size, **heads, "rope_parameters": rope,
                        "bos_token_id": token_id("<|endoftext|>"),
                        "eos_token_id": token_id("<|im_end|>")},
        "vision_config": vision,
        "tie_word_embeddings": True,
        **{f"{kind}_token_id": token_id(f"<|{kind}_pad|>") for kind in ("image", "video")},
        **{f"vision_{end}_token_id": token_id(f"<|vision_{end}|>") for end in ("start", "end")},
    }  # fmt: skip


_CLIP = {"hidden_size": WIDTH, "intermediate_size": INNER, "projection_dim": WIDTH,
         "num_hidden_layers": 2, "num_attention_heads": HEADS}  # fmt: skip
_T5 = {"d_model": WIDTH, "d_kv": WIDTH // HEADS, "d_ff": INNER, "num_layers": 2, "num_heads": HEADS,
       "feed_forward_proj": "gated-gelu"}  # fmt: skip
_VIDEO_VAE = {"base_dim": 16, "dim_mult": [1, 2, 2, 2], "num_res_blocks": 1}
_IMAGE_VAE = {
    "block_out_channels": (16, 32, 32, 32), "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4, "latent_channels": 16, "norm_num_groups": 8,
    "scaling_factor": 0.3611, "shift_factor": 0.1159, "use_quant_conv": False,
    "use_post_quant_conv": False,
}  # fmt: skip
# Schedules of Qwen/Qwen-Image, black-forest-labs/FLUX.1-dev and Wan-AI/Wan2.2-T2V-A14B-Diffusers.
_QWEN_SCHEDULE = {"use_dynamic_shifting": True, "base_shift": 0.5, "max_shift": 0.9,
                  "max_image_seq_len": 8192, "shift_terminal": 0.02}  # fmt: skip
_FLUX_SCHEDULE = {"use_dynamic_shifting": True, "shift": 3.0}
_WAN_SCHEDULE = {"prediction_type": "flow_prediction", "use_flow_sigmas": True, "flow_shift": 5.0}
_BUILDERS: dict[str, Callable[[Path, int, int, int], dict[str, Any]]] = {
    "qwen-image": _qwen_image, "flux": _flux, "wan": _wan,
}  # fmt: skip
