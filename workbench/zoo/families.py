"""The model families that the workbench knows, as data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from workbench.errors import ModelNotFound
from workbench.zoo.json_files import read_json

_INDEX, _CONFIG = "model_index.json", "config.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What is common to all models of one pipeline class."""

    name: str
    pipelines: tuple[str, ...] = ()
    """``_class_name`` in model_index.json."""
    architectures: tuple[str, ...] = ()
    """Of config.json, where there is no diffusers pipeline."""
    transformers: tuple[str, ...] = ("transformer",)
    """Components that are quantized, where present."""
    sampling: dict[str, Any] = field(default_factory=dict)
    """Sampling fields that the pipeline is made for; see :func:`sampling_of`."""
    guidance: str = "guidance_scale"
    """The Sampling field that scales classifier-free guidance."""
    prompt_tokens: int | None = None
    """Where diffusers' pipeline cuts a prompt; None leaves that to the tokenizer."""
    pads_prompts: bool = False
    """Whether every prompt is padded to that length."""
    image_input: Literal["none", "some", "needed"] = "none"
    """Whether it draws from a first frame; ``some`` of its models do, those whose index says
    ``expand_timesteps``."""
    not_served: str = ""
    """Why the workbench does not generate with it, if it does not."""

    @property
    def draws_videos(self) -> bool:
        """Whether a request has frames."""
        return "num_frames" in self.sampling


_TI2V = {"fps": 24.0}
"""What Wan2.2-TI2V-5B has apart from the others of its class."""
_NOT_TRIED = "its generation is not wired up in the workbench; names, presets and layouts are"
_WAN = Family(
    name="wan",
    pipelines=("WanPipeline",),
    transformers=("transformer", "transformer_2"),
    sampling={
        "height": 480,
        "width": 832,
        "guidance_scale": 5.0,
        "negative_prompt": "",
        "num_frames": 81,
        "fps": 16.0,
    },
    prompt_tokens=512,
    pads_prompts=True,
    image_input="some",
)
FAMILIES = (
    Family(
        name="qwen-image",
        pipelines=("QwenImagePipeline",),
        guidance="true_cfg_scale",
        prompt_tokens=512,
        sampling={"height": 1024, "width": 1024, "true_cfg_scale": 4.0, "negative_prompt": " "},
    ),
    Family(
        name="flux",
        pipelines=("FluxPipeline",),
        prompt_tokens=512,
        pads_prompts=True,
        sampling={"height": 1024, "width": 1024, "guidance_scale": 3.5},
    ),
    _WAN,
    replace(_WAN, name="wan-i2v", pipelines=("WanImageToVideoPipeline",), image_input="needed"),
    Family(
        name="flux2",
        pipelines=("Flux2Pipeline",),
        sampling={"height": 1024, "width": 1024, "guidance_scale": 4.0},
        not_served=_NOT_TRIED,
    ),
    Family(
        name="flux2-klein",
        pipelines=("Flux2KleinPipeline",),
        sampling={"height": 1024, "width": 1024, "guidance_scale": 4.0},
        not_served=_NOT_TRIED,
    ),
    Family(
        name="z-image",
        pipelines=("ZImagePipeline",),
        sampling={"height": 1024, "width": 1024, "guidance_scale": 5.0},
        not_served=_NOT_TRIED,
    ),
    Family(
        name="glm-image",
        pipelines=("GlmImagePipeline",),
        sampling={"height": 1024, "width": 1024, "guidance_scale": 1.5},
        not_served=_NOT_TRIED,
    ),
    Family(
        name="ovis-image",
        pipelines=("OvisImagePipeline",),
        sampling={"height": 1024, "width": 1024, "guidance_scale": 5.0, "negative_prompt": ""},
        not_served=_NOT_TRIED,
    ),
    Family(
        name="bagel",
        architectures=("BagelForConditionalGeneration",),
        transformers=("bagel",),
        not_served=_NOT_TRIED,
    ),
    Family(
        name="qwen2.5-omni",
        architectures=("Qwen2_5OmniModel", "Qwen2_5OmniForConditionalGeneration"),
        transformers=("thinker", "talker"),
        not_served=_NOT_TRIED,
    ),
    Family(
        name="qwen3-omni",
        architectures=("Qwen3OmniMoeForConditionalGeneration",),
        transformers=("thinker", "talker"),
        not_served=_NOT_TRIED,
    ),
)


def family_of(folder: Path) -> Family:
    """Family of a diffusers folder, or of a model that has a config.json alone.

    Raises:
        ModelNotFound: its class belongs to no family that we know, or it says none.
    """
    names = _class_names(folder)
    for family in FAMILIES:
        if set(names) & {*family.pipelines, *family.architectures}:
            return family
    known = ", ".join(
        name for family in FAMILIES for name in (*family.pipelines, *family.architectures)
    )
    raise ModelNotFound(
        f"{folder} is a {' or '.join(names) or 'model of no named class'}; "
        f"the workbench knows {known}"
    )


def image_input_of(folder: Path) -> Literal["none", "optional", "needed"]:
    """Whether a model draws from a first frame.

    Args:
        folder: Pipeline in diffusers layout.

    Returns:
        ``optional`` where it draws from prompts alone too, as TI2V does.

    Raises:
        ModelNotFound: as :func:`family_of`.
    """
    family = family_of(folder)
    if family.image_input != "some":
        return family.image_input
    return "optional" if _is_ti2v(folder) else "none"


def sampling_of(folder: Path) -> dict[str, Any]:
    """Sampling fields that a model is made for, where its folder has no card that says them.

    Args:
        folder: Pipeline in diffusers layout.

    Raises:
        ModelNotFound: as :func:`family_of`.
    """
    family = family_of(folder)
    own = _TI2V if family.image_input == "some" and _is_ti2v(folder) else {}
    return {**family.sampling, **own}


def family_named(name: str) -> Family:
    """The family of a name.

    Raises:
        ModelNotFound: there is none.
    """
    for family in FAMILIES:
        if family.name == name:
            return family
    raise ModelNotFound(f"no family {name!r}; there are {', '.join(one.name for one in FAMILIES)}")


def _is_ti2v(folder: Path) -> bool:
    return bool(read_json(folder / _INDEX).get("expand_timesteps"))


def _class_names(folder: Path) -> list[str]:
    """What a folder says it is."""
    index, config = folder / _INDEX, folder / _CONFIG
    if index.is_file():
        return _texts([read_json(index).get("_class_name")])
    if config.is_file():
        return _texts(read_json(config).get("architectures"))
    raise ModelNotFound(f"{folder} holds no {_INDEX} and no {_CONFIG}; give a whole model folder")


def _texts(value: Any) -> list[str]:
    """The names in a list; a file may hold anything there."""
    return [one for one in value if isinstance(one, str) and one] if isinstance(value, list) else []
