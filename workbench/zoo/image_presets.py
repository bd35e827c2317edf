"""Presets of Qwen-Image, FLUX, Z-Image, GLM-Image and Ovis-Image, from vllm-omni 0.30.0."""

from __future__ import annotations

from workbench.zoo.preset import (
    EVERY,
    MODELOPT,
    ONLINE,
    Component,
    Fused,
    Kept,
    Preset,
)

_AT = "vllm_omni/diffusion/models"
_BY_TRANSFORMERS = "built by transformers, which sees no quantization config of the engine"
_BY_DIFFUSERS = "built as diffusers does, without a quantization config"
QKV = ("to_q", "to_k", "to_v")
QKV_ALIASES = ("qkv_proj", "qkv")
_QKV = Fused(parent="attn", parts=QKV, runtime="to_qkv", aliases=QKV_ALIASES)
_ADDED_QKV = Fused(
    parent="attn",
    parts=("add_q_proj", "add_k_proj", "add_v_proj"),
    runtime="add_kv_proj",
    aliases=("add_qkv_proj",),
)
_DENOISER = Component(name="transformer", methods=EVERY)


def text_encoder(source: str, name: str = "text_encoder", why: str = _BY_TRANSFORMERS) -> Component:
    """A text encoder that stays in 16 bit."""
    return Component(name=name, reason=why, source=f"{_AT}/{source}")


def vae(source: str) -> Component:
    """A VAE, which no method quantizes."""
    return Component(name="vae", reason=_BY_DIFFUSERS, source=f"{_AT}/{source}")


QWEN_IMAGE = Preset(
    family="qwen-image",
    components=(
        _DENOISER,
        text_encoder("qwen_image/pipeline_qwen_image.py:319"),
        vae("qwen_image/pipeline_qwen_image.py:347"),
    ),
    blocks=("transformer_blocks",),
    outside=f"{_AT}/qwen_image/qwen_image_transformer.py:1086",
    kept=(
        Kept(
            part=".img_mod.",
            reason="modulation of the image stream is sensitive; built without quantization",
            source=f"{_AT}/qwen_image/qwen_image_transformer.py:811",
        ),
        Kept(
            part=".txt_mod.",
            reason="modulation of the text stream is sensitive; only AutoRound quantizes it",
            source=f"{_AT}/qwen_image/qwen_image_transformer.py:800",
            methods=(ONLINE, MODELOPT),
        ),
    ),
    fused=(_QKV, _ADDED_QKV),
    modules=(("attn.to_out.0", "attn.to_out"),),
    row_parallel=(".attn.to_out.0", ".attn.to_add_out", ".img_mlp.net.2", ".txt_mlp.net.2"),
    replicated=(".img_mod.1", ".txt_mod.1"),
)

FLUX = Preset(
    family="flux",
    components=(
        _DENOISER,
        text_encoder("flux/pipeline_flux.py:112"),
        text_encoder(
            "flux/pipeline_flux.py:116", "text_encoder_2", "the engine's own T5, built unquantized"
        ),
        vae("flux/pipeline_flux.py:117"),
    ),
    blocks=("transformer_blocks", "single_transformer_blocks"),
    outside=f"{_AT}/flux/flux_transformer.py:574",
    offered="norm_out.linear",
    kept=(
        Kept(
            part=".transformer_blocks.",
            reason="dual-stream blocks are quantized by AutoRound only",
            source=f"{_AT}/flux/flux_transformer.py:583",
            methods=(ONLINE, MODELOPT),
        ),
        Kept(
            part=".norm.linear.",
            reason="adaptive norm of the single-stream blocks is sensitive",
            source=f"{_AT}/flux/flux_transformer.py:388",
            methods=(ONLINE, MODELOPT),
        ),
    ),
    fused=(_QKV, _ADDED_QKV),
    row_parallel=(".attn.to_out.0", ".attn.to_add_out", ".ff.net.2", ".ff_context.net.2"),
    replicated=(".norm.linear", ".norm1.linear", ".norm1_context.linear", ".proj_mlp", ".proj_out"),
)

FLUX2 = Preset(
    family="flux2",
    components=(
        _DENOISER,
        Component(
            name="text_encoder",
            methods=(ONLINE,),
            reason="the engine's own Mistral takes the transformer's config, without its scales",
            source=f"{_AT}/flux2/pipeline_flux2.py:399",
        ),
        vae("flux2/pipeline_flux2.py:415"),
    ),
    blocks=("transformer_blocks", "single_transformer_blocks"),
    outside=f"{_AT}/flux2/flux2_transformer.py:850",
    fused=(_QKV, _ADDED_QKV),
    row_parallel=(
        ".attn.to_out.0",
        ".attn.to_add_out",
        ".ff.linear_out",
        ".ff_context.linear_out",
    ),
    not_offline=(
        "vLLM-Omni 0.30.0 applies the transformer's stored format to the Mistral text encoder as "
        "well (flux2/pipeline_flux2.py:399), which then waits for scales that no file holds"
    ),
)

FLUX2_KLEIN = Preset(
    family="flux2-klein",
    components=(
        _DENOISER,
        text_encoder("flux2_klein/pipeline_flux2_klein.py:238"),
        vae("flux2_klein/pipeline_flux2_klein.py:250"),
    ),
    blocks=FLUX2.blocks,
    outside=f"{_AT}/flux2_klein/flux2_klein_transformer.py:880",
    fused=FLUX2.fused,
    row_parallel=FLUX2.row_parallel,
    not_offline="no checkpoint of it was loaded back in vLLM-Omni by a test of the workbench yet",
)

Z_IMAGE = Preset(
    family="z-image",
    components=(
        _DENOISER,
        text_encoder("z_image/pipeline_z_image.py:218"),
        vae("z_image/pipeline_z_image.py:227"),
    ),
    blocks=("layers", "noise_refiner", "context_refiner"),
    outside=f"{_AT}/z_image/z_image_transformer.py:738",
    kept=(
        Kept(
            part=".adaLN_modulation.",
            reason="adaptive norm is sensitive; built without quantization",
            source=f"{_AT}/z_image/z_image_transformer.py:459",
        ),
    ),
    fused=(
        Fused(parent="attention", parts=QKV, runtime="to_qkv", aliases=QKV_ALIASES),
        Fused(parent="feed_forward", parts=("w1", "w3"), runtime="w13", aliases=("gate_up_proj",)),
    ),
    row_parallel=(".attention.to_out.0", ".feed_forward.w2"),
    replicated=(".adaLN_modulation.0",),
    heads=("n_heads", "n_kv_heads"),
    not_offline=(
        "vLLM-Omni 0.30.0 builds it at full size whatever the folder says "
        "(z_image/pipeline_z_image.py:228), so no small checkpoint of it can be tested here"
    ),
)

GLM_IMAGE = Preset(
    family="glm-image",
    components=(
        _DENOISER,
        text_encoder("glm_image/pipeline_glm_image.py:290"),
        vae("glm_image/pipeline_glm_image.py:303"),
        Component(
            name="vision_language_encoder",
            methods=(ONLINE,),
            reason="a stage of its own, run by vLLM; our quantizers read denoisers only",
            source="vllm_omni/model_executor/models/glm_image/glm_image_ar.py:60",
        ),
    ),
    blocks=("transformer_blocks", "glyph_projector", "prior_projector"),
    outside=f"{_AT}/glm_image/glm_image_transformer.py:1067",
    fused=(Fused(parent="attn1", parts=QKV, runtime="to_qkv", aliases=QKV_ALIASES),),
    row_parallel=(".attn1.to_out.0", ".net.2"),
    replicated=(".norm1.linear",),
    not_offline="two stages, whose formats vLLM-Omni takes apart by stage and not by folder",
)

OVIS_IMAGE = Preset(
    family="ovis-image",
    components=(
        Component(
            name="transformer",
            reason="built without a quantization config",
            source=f"{_AT}/ovis_image/pipeline_ovis_image.py:205",
        ),
        text_encoder("ovis_image/pipeline_ovis_image.py:184"),
        vae("ovis_image/pipeline_ovis_image.py:193"),
    ),
    blocks=("transformer_blocks", "single_transformer_blocks"),
    outside=f"{_AT}/ovis_image/ovis_image_transformer.py:396",
    fused=(_QKV, _ADDED_QKV),
    ignored=(
        "vLLM-Omni 0.30.0 builds Ovis-Image without a quantization config "
        "(ovis_image/pipeline_ovis_image.py:205): it accepts a request and runs 16 bit"
    ),
)

IMAGE_PRESETS = (QWEN_IMAGE, FLUX, FLUX2, FLUX2_KLEIN, Z_IMAGE, GLM_IMAGE, OVIS_IMAGE)
