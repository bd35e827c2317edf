"""Which scheme a layer gets from a ModelOpt entry: by whole names, and by those of the file.

Stock vLLM takes each entry of ``ignore`` for any part of a name
(layers/quantization/modelopt.py:157; ``proj_out`` then hides every ``single_transformer_blocks.*.
proj_out`` of Flux), a habit kept for ModelOpt before 0.39. And it looks layers of a mixed
checkpoint up by the engine's name, where the file's stands (:1659).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from vllm.model_executor.layers.quantization.modelopt import (
    ModelOptFp8Config,
    ModelOptMixedPrecisionConfig,
    ModelOptMxFp8Config,
    ModelOptNvFp4Config,
    ModelOptQuantConfigBase,
)

from workbench.zoo.names import canonical, runtime_name, siblings
from workbench.zoo.presets import PRESETS

WHOLE_NAMES_SINCE = (0, 39)


class _WholeNames(ModelOptQuantConfigBase):
    """Reads ``ignore`` as ModelOpt 0.39 and later write it."""

    whole_names = False

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> ModelOptQuantConfigBase:
        made = super().from_config(config)
        made.whole_names = _version(config) >= WHOLE_NAMES_SINCE
        return made

    def is_layer_excluded(self, prefix: str) -> bool:
        if not self.whole_names:
            return super().is_layer_excluded(prefix)
        if self._ignores(_names(prefix)):
            return True
        for members in _fused_from(prefix):
            ignored = [one for one in members if self._ignores(_names(one))]
            if ignored and len(ignored) < len(members):
                raise ValueError(
                    f"the checkpoint ignores {', '.join(ignored)}, but the engine fuses it with "
                    f"{', '.join(sorted(set(members) - set(ignored)))} into {prefix}; "
                    "all of them have one scheme"
                )
            if ignored:
                return True
        return False

    def _ignores(self, names: Iterable[str]) -> bool:
        return any(_means(entry, name) for name in names for entry in self.exclude_modules)


class DiffusionFp8Config(_WholeNames, ModelOptFp8Config):
    """FP8, per tensor or per channel and token."""


class DiffusionNvFp4Config(_WholeNames, ModelOptNvFp4Config):
    """NVFP4."""


class DiffusionMxFp8Config(_WholeNames, ModelOptMxFp8Config):
    """MXFP8."""


class DiffusionMixedConfig(_WholeNames, ModelOptMixedPrecisionConfig):
    """A scheme a layer; a fused layer has that of its members."""

    def _resolve_quant_algo(self, prefix: str) -> str | None:
        return super()._resolve_quant_algo(prefix) or self._of_members(prefix)

    def _of_members(self, prefix: str) -> str | None:
        listed = self._listed()
        keys = listed.get(prefix, set())
        schemes = {key: self.quantized_layers[key]["quant_algo"].upper() for key in keys}
        for members in _fused_from(prefix):
            if keys & set(members):
                schemes.update({one: "16 bit" for one in members if one not in keys})
        if len(set(schemes.values())) > 1:
            raise ValueError(
                f"the engine fuses {', '.join(f'{k} ({v})' for k, v in sorted(schemes.items()))} "
                f"into {prefix}; all of them have one scheme"
            )
        return next(iter(schemes.values()), None)

    def _listed(self) -> Mapping[str, set[str]]:
        """Names that the engine may ask for -> keys of the entry that say what it gets."""
        if not hasattr(self, "_by_runtime_name"):
            self._by_runtime_name: dict[str, set[str]] = {}
            for key in self.quantized_layers:
                for preset in PRESETS:
                    name = runtime_name(preset, key)
                    self._by_runtime_name.setdefault(name, set()).add(key)
        return self._by_runtime_name


CONFIGS: dict[str, type[ModelOptQuantConfigBase]] = {
    "modelopt": DiffusionFp8Config,
    "modelopt_fp4": DiffusionNvFp4Config,
    "modelopt_mixed": DiffusionMixedConfig,
    "modelopt_mxfp8": DiffusionMxFp8Config,
}


def _version(entry: Mapping[str, Any]) -> tuple[int, ...]:
    producer = entry.get("producer")
    version = str(producer.get("version", "")) if isinstance(producer, Mapping) else ""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _means(entry: str, name: str) -> bool:
    """Whether an entry of ``ignore``, a name or a glob, means a module or what lies in it."""
    return fnmatchcase(name, entry) or name.startswith(f"{entry}.")


def _names(name: str) -> set[str]:
    """A layer's name at run time, and in the files of every family that may be meant."""
    return {name, *(canonical(preset, name) for preset in PRESETS)}


def _fused_from(prefix: str) -> Iterable[tuple[str, ...]]:
    """The linears of the file that a fused layer of this name holds, one set a family."""
    owner, _, last = prefix.rpartition(".")
    found = {
        siblings(preset, f"{owner}.{group.parts[0]}")
        for preset in PRESETS
        for group in preset.fused
        if group.runtime == last and owner.rpartition(".")[2] == group.parent
    }
    return sorted(found)
