"""The weights that a launch is proved against, and how its files scale the inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import safe_open

from workbench import store, zoo
from workbench.errors import ModelNotFound, StoreError
from workbench.schemes import SIXTEEN_BIT
from workbench.serve.expected import components
from workbench.specs import LaunchSpec, ModelRef
from workbench.zoo.families import Family
from workbench.zoo.inventory import UNKNOWN, StoredLinear, linears

INPUT_SCALE = "input_scale"


@dataclass(frozen=True, kw_only=True)
class Source:
    """The original weights where they are here, else what the checkpoint's own files stand for."""

    name: str
    """For the summary."""
    why: str = ""
    """Why the 16-bit model is not compared with, if so."""
    stored: dict[str, dict[str, StoredLinear]] = field(default_factory=dict)
    """Component -> linears of the 16-bit model, or of the checkpoint itself."""
    own: bool = False
    """Whether these are the checkpoint's own files, for want of the 16-bit model."""
    input_scales: dict[tuple[str, str], float] = field(default_factory=dict)
    """(component, linear) of the launched folder -> its calibrated input scale."""
    errors: dict[tuple[str, str], float] = field(default_factory=dict)
    """(component, linear) of a checkpoint of ours -> weight error, measured when it was made."""

    def linear(self, component: str, name: str) -> StoredLinear | None:
        """The linear to compare with, or None where there is none that can be read."""
        one = self.stored.get(component, {}).get(name)
        if one is None or one.scheme == UNKNOWN:
            return None
        packed = one.tensors.get("qweight")
        if packed is not None and packed.shape[1] != one.shape[0]:  # AWQ's order, not GPTQ's
            return None
        return one if self.own or one.scheme in SIXTEEN_BIT else None


def source_of(spec: LaunchSpec, folder: Path, family: Family) -> Source:
    """Find the original of what is launched; nothing is downloaded for it.

    Args:
        spec: What is launched.
        folder: Where it lies.
        family: Its family.
    """
    if spec.recipe is None and spec.stored is None:
        return Source(name="the model", stored=_linears(folder, family))
    scales, manifest = _input_scales(folder, family), _manifest(folder)

    def itself(why: str) -> Source:
        stored = _linears(folder, family)
        return Source(name="its files", why=why, stored=stored, own=True, input_scales=scales)

    model = spec.model if spec.recipe is not None else _made_from(manifest)
    if model is None:
        return itself(f"{folder.name} does not say which 16-bit model it was made from")
    try:
        original = zoo.locate(model, download=False)
    except ModelNotFound as error:
        return itself(f"its source is not here ({error})")
    if zoo.pin(model, download=False).revision != model.revision:
        return itself(f"{model.source} has changed since it was quantized")
    return Source(
        name=model.source,
        stored=_linears(original, family),
        input_scales=scales,
        errors={
            (layer["component"], layer["name"]): layer["relative_error"]
            for layer in manifest.get("layers", ())
        },
    )


def _manifest(folder: Path) -> dict[str, Any]:
    """What was written beside a checkpoint of ours; empty for another quantizer's."""
    try:
        return store.read(folder)
    except StoreError:
        return {}


def _made_from(manifest: dict[str, Any]) -> ModelRef | None:
    model = manifest.get("spec", {}).get("model")
    return ModelRef(**model) if model else None


def _linears(folder: Path, family: Family) -> dict[str, dict[str, StoredLinear]]:
    return {name: linears(folder / name) for name in components(folder, family)}


def _input_scales(folder: Path, family: Family) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for component, stored in _linears(folder, family).items():
        facts = {
            name: one.tensors[INPUT_SCALE]
            for name, one in stored.items()
            if INPUT_SCALE in one.tensors
        }
        for file in {one.file for one in facts.values()}:
            with safe_open(file, framework="np") as tensors:
                for name, one in facts.items():
                    if one.file == file:
                        value = tensors.get_tensor(f"{name}.{INPUT_SCALE}")
                        found[component, name] = float(value.max())
    return found
