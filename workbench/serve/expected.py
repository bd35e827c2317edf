"""What each layer of a launch should run in: by the files, and by the online quantization."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.recipes import QuantRecipe
from workbench.schemes import SIXTEEN_BIT
from workbench.specs import LaunchSpec
from workbench.zoo.families import Family
from workbench.zoo.inventory import StoredLinear, linears
from workbench.zoo.json_files import object_of, read_json
from workbench.zoo.names import module_name, siblings
from workbench.zoo.presets import (
    AUTOROUND,
    MODELOPT,
    ONLINE,
    Preset,
    inside_blocks,
    kept_reason,
    preset_of,
)
from workbench.zoo.weights import PATTERN


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One layer of the engine, as the files and the request have it."""

    scheme: str
    """A name of SCHEMES, FP8 or INT8 online, BF16, ...; joined by ``+`` where members differ."""
    members: tuple[StoredLinear, ...]
    """The linears of the files that are loaded into it, in the order of its outputs."""
    kept: str | None = None
    """Why the engine builds it in 16 bit, whatever the files say; None if it quantizes it."""
    inside: bool = True
    """Whether it lies in a transformer block."""

    @property
    def quantized(self) -> bool:
        """Whether some of it should run in fewer than 16 bits."""
        return any(part not in SIXTEEN_BIT for part in self.scheme.split("+"))

    @property
    def file_dtype(self) -> str:
        """Dtypes of its weights in the files."""
        return "+".join(dict.fromkeys(member.dtype for member in self.members))


def expectations(folder: Path, family: Family, spec: LaunchSpec) -> dict[str, Expected]:
    """Layer of the engine, component included -> what it should be, from the headers of the files.

    Raises:
        SpecError: no preset for the family.
        ModelNotFound: broken weight files.
    """
    preset = preset_of(family.name)
    return {
        f"{component}.{name}": expected
        for component in components(folder, family)
        for name, expected in _component(folder / component, preset, spec)
    }


def components(folder: Path, family: Family) -> tuple[str, ...]:
    """The transformers of a pipeline that have weight files."""
    return tuple(name for name in family.transformers if any((folder / name).glob(PATTERN)))


def quantization_config(component: Path) -> dict[str, Any] | None:
    """How a component says it is quantized, if it says so.

    Raises:
        ModelNotFound: a config.json that is broken, or whose entry is no object.
    """
    config = component / "config.json"
    if not config.is_file():
        return None
    return object_of(config, read_json(config), "quantization_config")


def _component(folder: Path, preset: Preset, spec: LaunchSpec) -> Iterator[tuple[str, Expected]]:
    stored = linears(folder)
    method = method_of(folder, spec.recipe)
    seen: set[str] = set()
    for name in stored:
        if name in seen:
            continue
        members = tuple(stored[one] for one in siblings(preset, name) if one in stored)
        seen |= {member.name for member in members}
        kept = kept_reason(preset, name, method)
        yield (
            module_name(preset, name),
            Expected(
                scheme=_scheme(members, kept, spec),
                members=members,
                kept=kept,
                inside=inside_blocks(preset, name),
            ),
        )


def _scheme(members: tuple[StoredLinear, ...], kept: str | None, spec: LaunchSpec) -> str:
    if spec.quantization is not None and kept is None:
        return spec.quantization.upper()
    return "+".join(dict.fromkeys(member.scheme for member in members))


def method_of(component: Path, recipe: QuantRecipe | None) -> str:
    """The way of quantizing a component, as presets name it; ``online`` where it is 16 bit."""
    if recipe is not None:
        return recipe.method
    config = quantization_config(component)
    if not config:
        return ONLINE
    producer = config.get("producer")
    name = producer.get("name") if isinstance(producer, dict) else ""
    names = f"{config.get('quant_method')} {name}".lower()
    return MODELOPT if "modelopt" in names else AUTOROUND
