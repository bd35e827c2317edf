"""What vLLM-Omni 0.30.0 makes of parallel sizes in each family, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from workbench.errors import SpecError

_AT = "vllm_omni/diffusion"
_NO_PLAN = (
    "the transformer has no plan to shard its sequence, so every rank would compute all of it "
    "(vllm_omni/diffusion/registry.py:624)"
)
PLAIN_VAE = (
    "the engine builds a plain VAE, decodes all of it on every rank and only warns "
    "(vllm_omni/diffusion/registry.py:469)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """Which sizes a family's pipeline obeys, and what they must divide."""

    family: str
    only_one_tensor_rank: str = ""
    """Why tensor_parallel_size is 1 at most, if it is."""
    sequence: Literal["pads", "whole", "none"]
    """A sequence that does not divide is padded, or refused; ``none`` shards no sequence."""
    sequence_source: str
    """File and line of the plan, or why there is none."""
    joined_multiple: int = 1
    """Text and picture are each padded to this many tokens and sharded together."""
    guidance: str
    """The Sampling field that makes two branches above 1; empty where they are not split."""
    guidance_source: str
    patched_vae: bool
    """Whether vae_patch_parallel_size splits the decoding."""
    also_divided: tuple[str, ...] = ()
    """Beginnings of names outside the blocks whose outputs tensor parallelism must divide too."""
    also_divided_source: str = ""
    encoders: tuple[str, ...] = ()
    """Text encoders that tensor parallelism divides; the others are whole on every rank."""
    not_loaded: tuple[str, ...] = ()
    """Parts of names of a text encoder's tensors that the pipeline throws away."""


SUPPORT = (
    Support(
        family="qwen-image",
        sequence="pads",
        sequence_source=f"{_AT}/models/qwen_image/qwen_image_transformer.py:1026",
        guidance="true_cfg_scale",
        guidance_source=f"{_AT}/models/qwen_image/pipeline_qwen_image.py:715",
        patched_vae=True,
        not_loaded=(".visual.",),  # models/qwen_image/pipeline_qwen_image.py:337
    ),
    Support(
        family="flux",
        sequence="none",
        sequence_source=_NO_PLAN,
        # guidance_scale is distilled, an input of the transformer.
        guidance="true_cfg_scale",
        guidance_source=f"{_AT}/models/flux/pipeline_flux.py:584",
        patched_vae=False,
        encoders=("text_encoder_2",),  # models/t5_encoder/t5_encoder.py:42
    ),
    *(
        Support(
            family=family,
            sequence="pads",
            sequence_source=f"{_AT}/models/wan2_2/wan2_2_transformer.py:872",
            guidance="guidance_scale",
            guidance_source=f"{_AT}/models/wan2_2/pipeline_wan2_2.py:636",
            patched_vae=True,
        )
        for family in ("wan", "wan-i2v")
    ),
    Support(
        family="flux2",
        sequence="pads",
        sequence_source=f"{_AT}/models/flux2/flux2_transformer.py:774",
        guidance="guidance_scale",
        guidance_source=f"{_AT}/models/flux2/pipeline_flux2.py:986",
        patched_vae=True,
        encoders=("text_encoder",),  # models/mistral_encoder
    ),
    Support(
        family="flux2-klein",
        sequence="pads",
        sequence_source=f"{_AT}/models/flux2_klein/flux2_klein_transformer.py:809",
        guidance="guidance_scale",
        guidance_source=f"{_AT}/models/flux2_klein/pipeline_flux2_klein.py:1056",
        patched_vae=False,
    ),
    Support(
        family="z-image",
        sequence="whole",
        sequence_source=f"{_AT}/models/z_image/z_image_transformer.py:652",
        joined_multiple=32,  # models/z_image/z_image_transformer.py:57
        guidance="",
        guidance_source=f"{_AT}/models/z_image/pipeline_z_image.py",
        patched_vae=True,
        also_divided=("all_final_layer.",),
        also_divided_source=f"{_AT}/models/z_image/z_image_transformer.py:198",
    ),
    Support(
        family="glm-image",
        sequence="pads",
        sequence_source=f"{_AT}/models/glm_image/glm_image_transformer.py:950",
        guidance="guidance_scale",
        guidance_source=f"{_AT}/models/glm_image/pipeline_glm_image.py:517",
        patched_vae=False,
    ),
    Support(
        family="ovis-image",
        only_one_tensor_rank=(
            "its attention's output is a plain linear, which takes the heads of all ranks "
            "(vllm_omni/diffusion/models/ovis_image/ovis_image_transformer.py:83)"
        ),
        sequence="none",
        sequence_source=_NO_PLAN,
        guidance="guidance_scale",
        guidance_source=f"{_AT}/models/ovis_image/pipeline_ovis_image.py:663",
        patched_vae=False,
    ),
)


def support_of(family: str) -> Support:
    """What a family's pipeline supports.

    Raises:
        SpecError: none is known; only families of diffusers pipelines are.
    """
    for support in SUPPORT:
        if support.family == family:
            return support
    known = ", ".join(support.family for support in SUPPORT)
    raise SpecError(
        f"nothing is known of the layouts of {family!r}; there are {known}. "
        "Launch it on one device, or by vLLM-Omni itself"
    )
