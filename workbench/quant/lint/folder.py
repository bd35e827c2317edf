"""A checkpoint folder taken apart: pipeline, single component or flat transformers folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from workbench.errors import ModelNotFound, SpecError
from workbench.quant.lint.findings import ERROR, Finding
from workbench.quant.lint.methods import MethodName, method_of
from workbench.zoo.families import FAMILIES, Family
from workbench.zoo.inventory import StoredLinear, modules
from workbench.zoo.presets import Preset, preset_of
from workbench.zoo.weights import TensorFacts, WeightFiles, survey

INDEX, CONFIG = "model_index.json", "config.json"
BESIDE = ("quantization_config.json", "hf_quant_config.json")
KEY = "quantization_config"
Layout = Literal["pipeline", "component", "flat"]
_CLASSES = {"qwenimage": "qwen-image", "flux2": "flux2", "flux": "flux", "wan": "wan"}
"""Begin of a diffusers transformer's class name, in lower case -> family; the first match wins."""


@dataclass(frozen=True, kw_only=True)
class Component:
    """One folder of weights, and all that is said about their quantization."""

    name: str
    """Of its folder in the pipeline; ``transformer`` where the folder itself was given."""
    where: str
    """Its path below the linted folder, with a slash; empty if it is that folder."""
    files: WeightFiles
    config: dict[str, Any]
    said: dict[str, dict[str, Any]]
    """File, and path within it -> the quantization config that it holds."""
    transformer: bool
    """Whether vLLM-Omni hands its quantization config to it."""
    preset: Preset | None
    family: str = ""
    flat: bool = False
    """Whether it is a transformers folder, which vLLM itself reads."""

    @property
    def quantization(self) -> dict[str, Any]:
        """The config that the engine reads: that of config.json, else the first there is."""
        own = self.said.get(f"{self.where}{CONFIG}")
        return own if own is not None else next(iter(self.said.values()), {})

    @property
    def quantization_file(self) -> str:
        """The file that :attr:`quantization` lies in."""
        own = f"{self.where}{CONFIG}"
        return own if own in self.said else next(iter(self.said), own).partition(":")[0]

    @property
    def method(self) -> MethodName:
        """What that config calls its method."""
        return method_of(self.quantization)

    @cached_property
    def tensors(self) -> dict[str, TensorFacts]:
        """Every tensor that belongs to it."""
        return self.files.tensors

    @cached_property
    def linears(self) -> dict[str, StoredLinear]:
        """Every module with a weight matrix, by name in the file."""
        return modules(self.tensors)

    @cached_property
    def quantized(self) -> dict[str, StoredLinear]:
        """Those stored in fewer than 16 bits."""
        return {name: linear for name, linear in self.linears.items() if linear.quantized}

    def file_of(self, facts: TensorFacts) -> str:
        """Path of a tensor's file below the linted folder."""
        return f"{self.where}{facts.file.name}"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is linted."""

    folder: Path
    layout: Layout
    family: Family | None
    components: tuple[Component, ...]
    root: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Quantization configs beside model_index.json, by file."""
    broken: tuple[Finding, ...] = ()
    """JSON files that are none."""

    @property
    def transformers(self) -> tuple[Component, ...]:
        """The components that vLLM-Omni can run quantized."""
        return tuple(component for component in self.components if component.transformer)


class _Reader:
    """Reads JSON objects below a folder, and keeps what is broken as findings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broken: list[Finding] = []

    def __call__(self, name: str) -> dict[str, Any]:
        file = self.folder / name
        if not file.is_file():
            return {}
        try:
            value = json.loads(file.read_text())
            if not isinstance(value, dict):
                raise ValueError("no JSON object")
        except (OSError, ValueError) as error:
            message = f"cannot be read ({error}); download or save it again"
            self.broken.append(Finding(ERROR, "config-broken", name, "", message))
            return {}
        return value


def open_folder(folder: Path) -> Subject:
    """Survey a folder from headers and configs alone.

    Raises:
        ModelNotFound: no such folder, or nothing in it that could be a model.
    """
    if not folder.is_dir():
        raise ModelNotFound(
            f"{folder} is not a folder; give a pipeline, one of its components, or embedded:NAME"
        )
    read = _Reader(folder)
    if (folder / INDEX).is_file():
        return _pipeline(folder, read)
    if not (folder / CONFIG).is_file() and not any(folder.glob("*.safetensors")):
        raise ModelNotFound(
            f"{folder} holds neither {INDEX} nor {CONFIG} nor *.safetensors, so it is no model"
        )
    return _single(folder, read)


def _pipeline(folder: Path, read: _Reader) -> Subject:
    index = read(INDEX)
    family = _family(str(index.get("_class_name", "")))
    named = [n for n, v in index.items() if isinstance(v, list) and v and v[0] is not None]
    names = named if index else [child.name for child in folder.iterdir() if child.is_dir()]
    transformers = family.transformers if family else ("transformer", "transformer_2")
    components = [
        _component(read, name, f"{name}/", name in transformers, family)
        for name in sorted(names)
        if (folder / name).is_dir()
    ]
    said = dict(_configs(read, ""))
    return Subject(
        folder=folder,
        layout="pipeline",
        family=family,
        components=tuple(components),
        root=said,
        broken=tuple(read.broken),
    )


def _single(folder: Path, read: _Reader) -> Subject:
    config = read(CONFIG)
    diffusers = "_class_name" in config
    family = _of_class(str(config.get("_class_name", ""))) if diffusers else _flat_family(config)
    own = folder.name if folder.name.startswith("transformer") else "transformer"
    component = _component(read, own if diffusers else "model", "", True, family)
    if not diffusers:
        component = replace(component, flat=True, preset=None)
    return Subject(
        folder=folder,
        layout="component" if diffusers else "flat",
        family=family,
        components=(component,),
        broken=tuple(read.broken),
    )


def _component(
    read: _Reader, name: str, where: str, transformer: bool, family: Family | None
) -> Component:
    config = read(f"{where}{CONFIG}")
    return Component(
        name=name,
        where=where,
        files=survey(read.folder / where),
        config=config,
        said=dict(_configs(read, where, config)),
        transformer=transformer,
        preset=_preset(family) if transformer else None,
        family=family.name if family else "",
    )


def _configs(
    read: _Reader, where: str, config: dict[str, Any] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every quantization config of a folder: in config.json, nested in it, and beside it."""
    name = f"{where}{CONFIG}"
    config = read(name) if config is None else config
    for path, value in _nested(config):
        yield f"{name}:{path}" if path else name, value
    for beside in BESIDE:
        if value := read(f"{where}{beside}"):
            yield f"{where}{beside}", value


def _nested(config: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for key, value in config.items():
        if key == KEY and isinstance(value, (dict, str)):
            yield path, value if isinstance(value, dict) else {"quant_method": value}
        elif isinstance(value, dict) and path.count(".") < 2:
            yield from _nested(value, f"{path}.{key}".strip("."))


def _family(pipeline: str) -> Family | None:
    return next((family for family in FAMILIES if pipeline in family.pipelines), None)


def _of_class(name: str) -> Family | None:
    found = next((own for begin, own in _CLASSES.items() if name.lower().startswith(begin)), None)
    return next((family for family in FAMILIES if family.name == found), None)


def _flat_family(config: dict[str, Any]) -> Family | None:
    named = config.get("architectures")
    names = set(named) if isinstance(named, list) else set()
    return next((family for family in FAMILIES if names & set(family.architectures)), None)


def _preset(family: Family | None) -> Preset | None:
    try:
        return preset_of(family.name) if family else None
    except SpecError:
        return None
