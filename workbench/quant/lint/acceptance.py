"""Whether vLLM-Omni 0.30.0 takes a quantization config, and as which of its methods.

Restates vllm_omni/quantization/factory.py, inc_config.py and the constructors that they call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.quant.lint import methods as m
from workbench.zoo import repairs

Config = Mapping[str, Any]
PER_EXPERT = ("wan", "wan-i2v")
"""Families that read one config an expert (wan2_2/pipeline_wan2_2.py:188)."""
_AUTOROUND = ("inc", "auto-round", "auto_round")
_PACKINGS = ("auto_round:auto_gptq", "auto_round:auto_awq")
_MX_PACKING = "auto_round:llm_compressor"
_MODELOPT = {
    "FP8": "modelopt", "FP8_PER_CHANNEL_PER_TOKEN": "modelopt", "NVFP4": "modelopt_fp4",
    "MIXED_PRECISION": "modelopt_mixed",
}  # fmt: skip
_REPAIRED = {"MXFP8": "modelopt_mxfp8", "W4A16_NVFP4": "modelopt_fp4", "FP8_PB_WO": "modelopt"}
_ARGUMENTS = {
    m.FP8: {
        "is_checkpoint_fp8_serialized", "activation_scheme", "ignored_layers", "weight_block_size",
        "store_dtype",
    },
    m.INT8: {"is_checkpoint_int8_serialized", "activation_scheme", "ignored_layers"},
}  # fmt: skip
"""All that the constructors take; vLLM-Omni passes them every key of the config."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """How the engine reads a config."""

    method: str = ""
    """Its own name of the method, e.g. ``inc``, ``modelopt_fp4``; empty if refused."""
    refusal: str = ""
    """What it raises, in short."""
    repair: str = ""
    """Name of the repair without which it would refuse."""


def accepts(config: Config, family: str, repaired: Collection[str]) -> Accepted:
    """Read a config as the engine does, some repairs applied.

    Args:
        config: The quantization config of a transformer.
        family: Name of the model family.
        repaired: Names of :data:`workbench.zoo.repairs.REPAIRS` that are in force.
    """
    name = m.method_of(config)
    reader = _READERS.get(name.canonical)
    if reader is None:
        return Accepted(refusal=f"ValueError: Unknown quantization method: {name.raw!r}")
    return reader(config, family, repaired)


def _autoround(config: Config, family: str, repaired: Collection[str]) -> Accepted:
    raw = m.method_of(config).raw
    if raw.lower().replace("-", "_") not in ("inc", "auto_round"):
        return Accepted(
            refusal=f"ValueError: Unknown quantization method: {raw!r}; it knows "
            f"{', '.join(_AUTOROUND)}"
        )
    problem = _integers(config) or (_mx(config) if _floating(config) else _int(config))
    return Accepted(refusal=problem) if problem else Accepted("inc")


def _floating(config: Config) -> bool:
    return "mx_fp" in str(config.get("data_type") or "int")


def _integers(config: Config) -> str:
    bits = config.get("bits", config.get("weight_bits"))
    if bits is None or config.get("group_size") is None:
        return "TypeError: OmniINCConfig needs weight_bits and group_size"
    if bits not in range(2, 9):
        return f"ValueError: Unsupported weight_bits: {bits!r}"
    group = config["group_size"]
    if type(group) is not int and not isinstance(group, (list, tuple)):
        return f"ValueError: INC group_size must be an int, but is {group!r}"
    return ""


def _int(config: Config) -> str:
    kind = str(config.get("data_type") or "int")
    if kind != "int":
        return f"ValueError: Unsupported data_type: {kind}"
    packing = config.get("packing_format", _PACKINGS[0])
    if packing not in _PACKINGS:
        return f"ValueError: Unsupported packing_format: {packing}"
    if not config.get("sym", True) and packing == _PACKINGS[0]:
        return (
            f"NotImplementedError: sym={config['sym']} is read as asymmetric, and there is no "
            "kernel for asymmetric weights in this packing"
        )
    return ""


def _mx(config: Config) -> str:
    found = (config.get("packing_format"), config.get("group_size"), config.get("sym", True))
    if found != (_MX_PACKING, 32, True):
        return (
            f"AssertionError: INC MXFP takes {_MX_PACKING}, group_size 32, sym true; "
            f"the config has {', '.join(map(str, found))}"
        )
    return ""


def _modelopt(config: Config, family: str, repaired: Collection[str]) -> Accepted:
    found = m.algorithm(config)
    method = _MODELOPT.get(found) or _REPAIRED.get(found)
    if method is None:
        return Accepted(refusal=f"TypeError: no diffusion reader for quant_algo {found!r}")
    if found == "MIXED_PRECISION" and not config.get("quantized_layers"):
        return Accepted(refusal="ValueError: MIXED_PRECISION without quantized_layers")
    needs = repairs.MXFP8 if found in _REPAIRED else repairs.MODELOPT * (family in PER_EXPERT)
    return _repairable(method, needs, repaired)


def _compressed(config: Config, family: str, repaired: Collection[str]) -> Accepted:
    return _repairable(m.COMPRESSED, repairs.COMPRESSED_TENSORS, repaired)


def _repairable(method: str, repair: str, repaired: Collection[str]) -> Accepted:
    if repair and repair not in repaired:
        return Accepted(refusal=repairs.REPAIRS[repair].stock, repair=repair)
    return Accepted(method, repair=repair)


def _plain(config: Config, family: str, repaired: Collection[str]) -> Accepted:
    name = m.method_of(config).canonical
    strange = sorted(set(config) - _ARGUMENTS[name] - {"quant_method", "method"})
    if strange:
        return Accepted(
            refusal=f"TypeError: Cannot instantiate its config with {', '.join(strange)}; "
            f"it takes {', '.join(sorted(_ARGUMENTS[name]))}"
        )
    return Accepted(name)


def _torchao(config: Config, family: str, repaired: Collection[str]) -> Accepted:
    if "quant_type" not in config:
        return Accepted(refusal="TypeError: TorchAOConfig without quant_type")
    return Accepted(m.TORCHAO)


def _never(config: Config, family: str, repaired: Collection[str]) -> Accepted:
    raw = m.method_of(config).raw
    return Accepted(
        refusal=f"TypeError: vLLM-Omni has no reader of {raw} folders for diffusion; quantize with "
        "AutoRound (format auto_round) or ModelOpt instead"
    )


_READERS: dict[str, Callable[[Config, str, Collection[str]], Accepted]] = {
    m.AUTOROUND: _autoround, m.MODELOPT: _modelopt, m.COMPRESSED: _compressed, m.FP8: _plain,
    m.INT8: _plain, m.TORCHAO: _torchao, "gptq": _never, "awq": _never, "bitsandbytes": _never,
}  # fmt: skip
