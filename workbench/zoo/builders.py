"""Pipelines with random weights: the real diffusers classes at any shape, for all but quality."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import store
from workbench.torchvision_ops import define_missing
from workbench.zoo.models import CARD
from workbench.zoo.tiny_tokenizers import build_clip, build_qwen, build_t5

if TYPE_CHECKING:
    from torch import Generator, Tensor, device, dtype, nn

HEAD = 128  # channels of an attention head of the text encoders
TEXT_LAYERS = 2
OUTLIER_EVERY, OUTLIER_GAIN = 64, 4.0  # input channels that a quantizer must cope with
SHARD = "5GB"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a pipeline is made of; all but the text encoders has the sizes of its configs."""

    family: str
    """``qwen-image``, ``flux``, ``wan`` or ``wan-i2v``."""
    transformer: Mapping[str, Any]
    vae: Mapping[str, Any]
    text_width: int
    """Channels that the transformer reads of each token, a multiple of 128."""
    pooled_width: int = 0
    """Channels of FLUX's pooled prompt."""
    pipeline: Mapping[str, Any] = field(default_factory=dict)
    """What else the pipeline's config holds: ``boundary_ratio``, ``expand_timesteps``."""
    sampling: Mapping[str, Any]
    """Defaults of the model card."""

    @property
    def experts(self) -> int:
        """Transformers: two where a boundary splits the timesteps."""
        return 2 if self.pipeline.get("boundary_ratio") else 1


def build(shape: Shape, folder: str | Path, *, seed: int = 0, on: str = "cpu") -> Path:
    """Write a pipeline in diffusers layout; the same arguments give the same bytes.

    Args:
        shape: What to build.
        folder: Created if missing.
        seed: Of the weights.
        on: Torch device that draws them, such as ``cuda``; another device, other weights.

    Returns:
        The folder, resolved. Its card says that the weights are random.
    """
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    define_missing()
    import torch

    _save(_BUILDERS[shape.family](shape, folder), folder, seed, torch.device(on))
    card = {"weights": "random", "sampling": dict(shape.sampling)}
    store.write_json(folder / CARD, card)
    return folder


def transformer_parameters(shape: Shape) -> int:
    """Parameters of one transformer, counted without memory for them."""
    define_missing()
    return sum(p.numel() for p in _transformer(shape).parameters())


def _transformer(shape: Shape) -> nn.Module:
    """On torch's meta device: sizes without weights."""
    import diffusers
    import torch

    with torch.device("meta"):
        return getattr(diffusers, _TRANSFORMERS[shape.family])(**shape.transformer)


def _qwen_image(shape: Shape, folder: Path) -> Any:
    import diffusers as d
    from transformers import AutoTokenizer, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    vocabulary = build_qwen(folder / "tokenizer")
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    config = _qwen_text(shape.text_width, _rows(vocabulary), tokenizer.convert_tokens_to_ids)
    return d.QwenImagePipeline(
        tokenizer=tokenizer,
        text_encoder=Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(**config)),
        vae=d.AutoencoderKLQwenImage(**shape.vae),
        scheduler=d.FlowMatchEulerDiscreteScheduler(**_QWEN_SCHEDULE),
        transformer=_transformer(shape),
    )


def _flux(shape: Shape, folder: Path) -> Any:
    import diffusers as d
    from transformers import AutoTokenizer, CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel

    clip_size, t5_size = build_clip(folder / "tokenizer"), build_t5(folder / "tokenizer_2")
    clip = {"vocab_size": clip_size, "bos_token_id": clip_size - 2, "eos_token_id": clip_size - 1}
    clip |= {"projection_dim": shape.pooled_width, **_clip(shape.pooled_width)}
    t5 = {"vocab_size": _rows(t5_size), **_t5(shape.text_width)}
    return d.FluxPipeline(
        tokenizer=AutoTokenizer.from_pretrained(folder / "tokenizer"),
        tokenizer_2=AutoTokenizer.from_pretrained(folder / "tokenizer_2"),
        text_encoder=CLIPTextModel(CLIPTextConfig(**clip)),
        text_encoder_2=T5EncoderModel(T5Config(**t5)),
        vae=d.AutoencoderKL(**shape.vae),
        scheduler=d.FlowMatchEulerDiscreteScheduler(**_FLUX_SCHEDULE),
        transformer=_transformer(shape),
    )


def _wan(shape: Shape, folder: Path) -> Any:
    import diffusers as d
    from transformers import AutoTokenizer, UMT5Config, UMT5EncoderModel

    t5 = {"vocab_size": _rows(build_t5(folder / "tokenizer")), **_t5(shape.text_width)}
    return d.WanPipeline(
        tokenizer=AutoTokenizer.from_pretrained(folder / "tokenizer"),
        text_encoder=UMT5EncoderModel(UMT5Config(**t5)),
        vae=d.AutoencoderKLWan(**shape.vae),
        scheduler=d.UniPCMultistepScheduler(**_WAN_SCHEDULE),
        transformer=_transformer(shape),
        transformer_2=_transformer(shape) if shape.experts == 2 else None,
        **shape.pipeline,
    )


def _wan_i2v(shape: Shape, folder: Path) -> Any:
    import diffusers as d

    # Without an image encoder, which Wan 2.1 alone has.
    return d.WanImageToVideoPipeline(**_wan(shape, folder).components, **shape.pipeline)


def _save(pipeline: Any, folder: Path, seed: int, on: device) -> None:
    """Fill the networks and write everything but the tokenizers, which lie there as built."""
    from torch import bfloat16, float32, nn

    for name, component in pipeline.components.items():
        if isinstance(component, nn.Module):  # Wan ships its VAE in float32
            dtype = float32 if type(component).__name__ == "AutoencoderKLWan" else bfloat16
            _fill(component, f"{seed}:{name}", dtype, on)
            component.save_pretrained(folder / name, max_shard_size=SHARD)
            component.to("meta")  # the next one needs the memory
        elif name == "scheduler":
            component.save_pretrained(folder / name)
    pipeline.save_config(folder)
    _drop_unused_expert(folder / "model_index.json")


def _drop_unused_expert(index: Path) -> None:
    """The engine loads an expert that is named, also as null (pipeline_wan2_2_i2v.py:233)."""
    content = json.loads(index.read_text())
    if content["_class_name"] == "WanImageToVideoPipeline" and content["transformer_2"][0] is None:
        store.write_json(index, {k: v for k, v in content.items() if k != "transformer_2"})


def _fill(module: nn.Module, label: str, dtype: dtype, on: device) -> None:
    from torch.nn import Parameter

    for name, parameter in list(module.named_parameters()):
        values = _values(parameter, name, f"{label}:{name}", on).to(dtype)
        if parameter.is_meta:
            owner, _, own = name.rpartition(".")
            setattr(module.get_submodule(owner), own, Parameter(values, requires_grad=False))
        else:  # in place, since a text encoder's tensors may be tied
            parameter.data = values.to(parameter.device)


def _values(like: Tensor, name: str, label: str, on: device) -> Tensor:
    """Ones for norms, small biases, N(0, 1/fan_in) with a few large input channels for the rest."""
    import torch

    if name.endswith("gamma") or (like.ndim == 1 and name.endswith("weight")):
        return torch.ones(like.shape, device=on)
    values = torch.randn(like.shape, generator=_generator(label, on), device=on)
    if like.ndim < 2:
        return values * 0.02
    values /= math.sqrt(math.prod(like.shape[1:]))
    if like.ndim == 2:
        values[:, ::OUTLIER_EVERY] *= OUTLIER_GAIN
    return values


def _generator(label: str, on: device) -> Generator:
    import torch

    digest = hashlib.sha256(label.encode()).digest()
    return torch.Generator(on).manual_seed(int.from_bytes(digest[:7], "big"))


def _rows(vocabulary: int) -> int:
    """Embedding rows: a multiple of 64, as vLLM pads them."""
    return -(-vocabulary // 64) * 64


def _clip(width: int) -> dict[str, Any]:
    return {"hidden_size": width, "intermediate_size": 2 * width,
            "num_hidden_layers": TEXT_LAYERS, "num_attention_heads": width // HEAD}  # fmt: skip


def _t5(width: int) -> dict[str, Any]:
    return {"d_model": width, "d_kv": HEAD, "d_ff": 2 * width, "num_layers": TEXT_LAYERS,
            "num_heads": width // HEAD, "feed_forward_proj": "gated-gelu"}  # fmt: skip


def _qwen_text(width: int, vocabulary: int, token_id: Callable[[str], int]) -> dict[str, Any]:
    size = {"hidden_size": width, "intermediate_size": 2 * width, "num_hidden_layers": TEXT_LAYERS}
    heads = {"num_attention_heads": width // HEAD, "num_key_value_heads": 1}
    rope = {"rope_type": "default", "mrope_section": [16, 24, 24], "rope_theta": 1e6}
    vision = {"depth": 1, "hidden_size": HEAD, "num_heads": 1, "intermediate_size": HEAD,
              "out_hidden_size": width, "fullatt_block_indexes": [0]}  # fmt: skip
    return {
        "text_config": {"vocab_size": vocabulary, **size, **heads, "rope_parameters": rope,
                        "bos_token_id": token_id("<|endoftext|>"),
                        "eos_token_id": token_id("<|im_end|>")},
        "vision_config": vision,
        "tie_word_embeddings": True,
        **{f"{kind}_token_id": token_id(f"<|{kind}_pad|>") for kind in ("image", "video")},
        **{f"vision_{end}_token_id": token_id(f"<|vision_{end}|>") for end in ("start", "end")},
    }  # fmt: skip


# Schedules of Qwen/Qwen-Image, black-forest-labs/FLUX.1-dev and Wan-AI/Wan2.2-T2V-A14B-Diffusers.
_QWEN_SCHEDULE = {"use_dynamic_shifting": True, "base_shift": 0.5, "max_shift": 0.9,
                  "max_image_seq_len": 8192, "shift_terminal": 0.02}  # fmt: skip
_FLUX_SCHEDULE = {"use_dynamic_shifting": True, "shift": 3.0}
_WAN_SCHEDULE = {"prediction_type": "flow_prediction", "use_flow_sigmas": True, "flow_shift": 5.0}
_TRANSFORMERS = {
    "qwen-image": "QwenImageTransformer2DModel",
    "flux": "FluxTransformer2DModel",
    "wan": "WanTransformer3DModel",
    "wan-i2v": "WanTransformer3DModel",
}
_BUILDERS: dict[str, Callable[[Shape, Path], Any]] = {
    "qwen-image": _qwen_image, "flux": _flux, "wan": _wan, "wan-i2v": _wan_i2v,
}  # fmt: skip
