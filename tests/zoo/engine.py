"""vLLM-Omni's own transformers on the meta device, and which of their linears would be quantized.

No weights, no launch: a quantization config that only writes down which layers it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
import torch

HEADS = {"num_attention_heads": 2, "attention_head_dim": 128}
ONE = {"num_layers": 1}
BOTH = {**ONE, "num_single_layers": 1}
TEXT = {"joint_attention_dim": 256}
GLM = {
    **HEADS,
    **ONE,
    "patch_size": 2,
    "in_channels": 16,
    "out_channels": 16,
    "time_embed_dim": 256,
    "condition_dim": 256,
    "prior_vq_quantizer_codebook_size": 64,
    "text_embed_dim": 256,
}
Z = {"dim": 384, "n_layers": 1, "n_refiner_layers": 1, "n_heads": 3, "n_kv_heads": 3}
WAN = {**HEADS, **ONE, "text_dim": 256, "ffn_dim": 512, "image_dim": 256, "added_kv_proj_dim": 256}
FLUX = {**HEADS, **BOTH, **TEXT, "pooled_projection_dim": 256, "guidance_embeds": True}
# Family -> (module and class of the engine, its arguments, class and arguments of diffusers).
BUILDS: dict[str, tuple[str, dict[str, Any], str, dict[str, Any]]] = {
    "qwen-image": (
        "qwen_image.qwen_image_transformer:QwenImageTransformer2DModel",
        {"od_config": ONE, **HEADS, **ONE, **TEXT},
        "QwenImageTransformer2DModel",
        {**HEADS, **ONE, **TEXT},
    ),
    "flux": (
        "flux.flux_transformer:FluxTransformer2DModel",
        {"od_config": ONE, **FLUX},
        "FluxTransformer2DModel",
        FLUX,
    ),
    "flux2": (
        "flux2.flux2_transformer:Flux2Transformer2DModel",
        {"od_config": ONE, **HEADS, **BOTH, **TEXT},
        "Flux2Transformer2DModel",
        {**HEADS, **BOTH, **TEXT},
    ),
    "flux2-klein": (
        "flux2_klein.flux2_klein_transformer:Flux2Transformer2DModel",
        {"od_config": ONE, **HEADS, **BOTH, **TEXT},
        "Flux2Transformer2DModel",
        {**HEADS, **BOTH, **TEXT},
    ),
    "wan": (
        "wan2_2.wan2_2_transformer:WanTransformer3DModel",
        {k: v for k, v in WAN.items() if k not in ("image_dim", "added_kv_proj_dim")},
        "WanTransformer3DModel",
        {k: v for k, v in WAN.items() if k not in ("image_dim", "added_kv_proj_dim")},
    ),
    "wan-i2v": (
        "wan2_2.wan2_2_transformer:WanTransformer3DModel", WAN, "WanTransformer3DModel", WAN,
    ),
    "z-image": (
        "z_image.z_image_transformer:ZImageTransformer2DModel",
        {**Z, "cap_feat_dim": 256},
        "ZImageTransformer2DModel",
        {**Z, "cap_feat_dim": 256},
    ),
    "glm-image": (
        "glm_image.glm_image_transformer:GlmImageTransformer2DModel",
        {"od_config": GLM},
        "GlmImageTransformer2DModel",
        GLM,
    ),
    "ovis-image": (
        "ovis_image.ovis_image_transformer:OvisImageTransformer2DModel",
        {"od_config": ONE, **BOTH},
        "OvisImageTransformer2DModel",
        {**BOTH, "num_attention_heads": 24},
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Built:
    """One linear of the engine."""

    kind: str
    seen_as: str | None
    """Prefix by which the quantization config was asked for it; None if it was not."""


@contextmanager
def single_process() -> Iterator[None]:
    """The engine's parallel groups of one process, as a worker sets them up; undone at the end."""
    from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
    from vllm.utils.network_utils import get_open_port
    from vllm_omni.diffusion.distributed import parallel_state
    from vllm_omni.diffusion.forward_context import set_forward_context

    environment = {
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(get_open_port()),
        "LOCAL_RANK": "0",
        "RANK": "0",
        "WORLD_SIZE": "1",
    }
    vllm = VllmConfig(device_config=DeviceConfig(device="cpu"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        with (
            set_forward_context(vllm_config=vllm, omni_diffusion_config=od_config()),
            set_current_vllm_config(vllm),
        ):
            parallel_state.init_distributed_environment(world_size=1, rank=0)
            parallel_state.initialize_model_parallel()
            try:
                yield
            finally:
                parallel_state.destroy_distributed_env()


def od_config(**transformer: Any) -> Any:
    from vllm_omni.diffusion.data import DiffusionParallelConfig, TransformerConfig

    return SimpleNamespace(
        parallel_config=DiffusionParallelConfig(),
        tf_model_config=TransformerConfig.from_dict(transformer),
        quantization_config=None,
    )


def recording(method: str) -> Any:
    """A quantization config of a method's kind that quantizes nothing and notes every layer."""
    from vllm.model_executor.layers.linear import LinearBase, UnquantizedLinearMethod
    from vllm.model_executor.layers.quantization.base_config import QuantizationConfig
    from vllm.model_executor.layers.quantization.inc import INCConfig

    class Recording(INCConfig if method == "auto-round" else QuantizationConfig):
        get_name = staticmethod(lambda: method)
        get_supported_act_dtypes = staticmethod(lambda: [torch.bfloat16])
        get_min_capability = staticmethod(lambda: 0)
        get_config_filenames = staticmethod(list)
        from_config = classmethod(lambda cls, config: cls())

        def __init__(self) -> None:
            QuantizationConfig.__init__(self)
            self.asked: dict[int, str] = {}

        def get_quant_method(self, layer, prefix):
            if not isinstance(layer, LinearBase):
                return None
            self.asked[id(layer)] = prefix
            return UnquantizedLinearMethod()

    return Recording()


def engine_linears(family: str, method: str) -> dict[str, Built]:
    """Path in the engine's transformer -> how it was built; within :func:`single_process`."""
    path, arguments, _, _ = BUILDS[family]
    module, name = path.split(":")
    make = getattr(import_module(f"vllm_omni.diffusion.models.{module}"), name)
    values = dict(arguments)
    if "od_config" in values:
        values["od_config"] = od_config(**values["od_config"])
    config = recording(method)
    if family != "ovis-image":  # the only one that takes none
        values["quant_config"] = config
    return built(lambda: make(**values), config)


def bagel_linears(method: str) -> dict[str, Built]:
    """The same of BAGEL's language model and connector, as its pipeline calls them."""
    from vllm_omni.diffusion.data import DiffusionParallelConfig
    from vllm_omni.diffusion.models.bagel import bagel_transformer as bagel

    config = recording(method)
    llm = bagel.Qwen2MoTConfig(
        hidden_size=256, intermediate_size=512, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, vocab_size=64, qk_norm=True,
        layer_module="Qwen2MoTDecoderLayer", tie_word_embeddings=False,
    )  # fmt: skip

    def make() -> torch.nn.Module:
        root, inner = torch.nn.Module(), torch.nn.Module()
        root.bagel = inner
        inner.language_model = bagel.Qwen2MoTForCausalLM(
            llm,
            parallel_config=DiffusionParallelConfig(),
            quant_config=config,
            prefix="bagel.language_model",
        )
        inner.connector = bagel.MLPconnector(
            256, 256, "gelu_pytorch_tanh", quant_config=config, prefix="bagel.connector"
        )
        return root

    return built(make, config)


def built(make: Callable[[], torch.nn.Module], config: Any) -> dict[str, Built]:
    from vllm.model_executor.layers.linear import LinearBase

    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"):
            model = make()
    finally:
        torch.set_default_dtype(torch.float32)
    return {
        name: Built(type(module).__name__, config.asked.get(id(module)))
        for name, module in model.named_modules()
        if isinstance(module, (LinearBase, torch.nn.Linear))
    }


def file_linears(family: str) -> list[str]:
    """Names of the linears as diffusers saves them."""
    import diffusers

    _, _, name, arguments = BUILDS[family]
    with torch.device("meta"):
        model = getattr(diffusers, name)(**arguments)
    return [name for name, part in model.named_modules() if isinstance(part, torch.nn.Linear)]
