"""Presets of Wan2.2, BAGEL and the Qwen-Omni models, from vllm-omni 0.30.0 and vllm 0.30.0."""

from __future__ import annotations

from dataclasses import replace

from workbench.zoo.image_presets import QKV, QKV_ALIASES, text_encoder, vae
from workbench.zoo.preset import (
    AUTOROUND,
    EVERY,
    MODELOPT,
    Component,
    Fused,
    Kept,
    Preset,
)

_DIFFUSION = "vllm_omni/diffusion/models"
_MODELS = "vllm_omni/model_executor/models"
_LLM_QKV = Fused(
    parent="self_attn", parts=("q_proj", "k_proj", "v_proj"), runtime="qkv_proj", aliases=("qkv",)
)
_GATE_UP = Fused(parent="mlp", parts=("gate_proj", "up_proj"), runtime="gate_up_proj")
_OMNI = (
    "an omni model, no diffusers pipeline: quantize its thinker with AutoRound or ModelOpt "
    "themselves, as for any language model"
)

WAN = Preset(
    family="wan",
    components=(
        Component(name="transformer", methods=EVERY),
        Component(name="transformer_2", methods=EVERY, optional=True),
        text_encoder("wan2_2/pipeline_wan2_2.py:478"),
        vae("wan2_2/pipeline_wan2_2.py:486"),
    ),
    blocks=("blocks",),
    outside=f"{_DIFFUSION}/wan2_2/wan2_2_transformer.py:283",
    fused=(Fused(parent="attn1", parts=QKV, runtime="to_qkv", aliases=QKV_ALIASES),),
    renamed=(("ffn.net.0", "ffn.net_0"), ("ffn.net.2", "ffn.net_2"), ("to_out.0", "to_out")),
    row_parallel=(".attn1.to_out.0", ".attn2.to_out.0", ".ffn.net.2"),
)

WAN_I2V = replace(
    WAN,
    family="wan-i2v",
    components=(
        *WAN.components[:2],
        text_encoder("wan2_2/pipeline_wan2_2_i2v.py:276"),
        vae("wan2_2/pipeline_wan2_2_i2v.py:306"),
        replace(text_encoder("wan2_2/pipeline_wan2_2_i2v.py:293", "image_encoder"), optional=True),
    ),
)

BAGEL = Preset(
    family="bagel",
    components=(
        Component(name="bagel", methods=EVERY),
        Component(
            name="vit_model",
            reason="built by transformers, which sees no quantization config of the engine",
            source=f"{_DIFFUSION}/bagel/pipeline_bagel.py:434",
        ),
        vae("bagel/pipeline_bagel.py:463"),
    ),
    blocks=("language_model.model.layers", "connector"),
    outside=f"{_DIFFUSION}/bagel/bagel_transformer.py:1305",
    fused=(
        _LLM_QKV,
        Fused(
            parent="self_attn",
            parts=("q_proj_moe_gen", "k_proj_moe_gen", "v_proj_moe_gen"),
            runtime="qkv_proj.gen_exp",
            aliases=("qkv_proj_moe_gen",),
        ),
        _GATE_UP,
        replace(_GATE_UP, parent="mlp_moe_gen"),
    ),
    renamed=(("o_proj_moe_gen", "o_proj.gen_exp"),),
    row_parallel=(".o_proj", ".o_proj_moe_gen", ".down_proj", "connector.fc2"),
    heads=("num_attention_heads", "num_key_value_heads"),
    not_offline=(
        "one flat folder, no diffusers pipeline, and diffusers 0.40 has no BAGEL; "
        "serve it online, or in BF16"
    ),
)

QWEN2_5_OMNI = Preset(
    family="qwen2.5-omni",
    components=(
        Component(name="thinker", methods=EVERY),
        Component(name="talker", methods=EVERY),
        Component(
            name="token2wav",
            reason="built of plain linears; it makes the waveform",
            source=f"{_MODELS}/qwen2_5_omni/qwen2_5_omni_token2wav.py:391",
        ),
    ),
    blocks=("model.layers", "visual.blocks", "visual.merger"),
    outside=f"{_MODELS}/qwen2_5_omni/qwen2_5_omni_talker.py:57",
    kept=(
        Kept(
            part=".visual.",
            reason="ModelOpt checkpoints hold no scales for the encoder; its config is taken away",
            source=f"{_MODELS}/qwen2_5_omni/qwen2_5_omni_thinker.py:1087",
            methods=(MODELOPT,),
        ),
    ),
    fused=(
        _LLM_QKV,
        _GATE_UP,
        Fused(parent="attn", parts=("q", "k", "v"), runtime="qkv", aliases=("qkv_proj",)),
    ),
    rooted=(("model.", "language_model.model."),),
    row_parallel=(".o_proj", ".down_proj", ".attn.proj", ".merger.mlp.2"),
    heads=("num_attention_heads", "num_key_value_heads"),
    not_offline=_OMNI,
)

QWEN3_OMNI = Preset(
    family="qwen3-omni",
    components=(
        Component(name="thinker", methods=EVERY),
        Component(name="talker", methods=EVERY, optional=True),
        Component(
            name="code2wav",
            reason="built by transformers; it makes the waveform",
            source=f"{_MODELS}/qwen3_omni/qwen3_omni_code2wav.py:40",
            optional=True,
        ),
    ),
    blocks=("model.layers", "code_predictor.model.layers"),
    outside=f"{_MODELS}/qwen3_omni/qwen3_omni_moe_talker.py:116",
    kept=(
        Kept(
            part=".code_predictor.",
            reason="the code predictor is built of plain linears",
            source=f"{_MODELS}/common/qwen3_code_predictor.py:196",
        ),
        Kept(
            part=".shared_expert_gate.",
            reason="a gate of one output; built without quantization",
            source="vllm/model_executor/models/qwen3_moe.py:183",
        ),
        Kept(
            part=".mlp.gate.",
            reason="the router chooses experts; quantizers leave it in 16 bit",
            source="vllm/model_executor/models/qwen3_moe.py:171",
            methods=(MODELOPT, AUTOROUND),
        ),
    ),
    fused=(_LLM_QKV, _GATE_UP, replace(_GATE_UP, parent="shared_expert")),
    rooted=(("model.", "language_model.model."),),
    experts="mlp.experts",
    row_parallel=(".o_proj", ".down_proj"),
    replicated=(".mlp.gate", ".shared_expert_gate"),
    heads=("num_attention_heads", "num_key_value_heads"),
    not_offline=_OMNI,
)

OTHER_PRESETS = (WAN, WAN_I2V, BAGEL, QWEN2_5_OMNI, QWEN3_OMNI)
