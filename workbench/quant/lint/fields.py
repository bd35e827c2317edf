"""Fields of a quantization config: there, of the right kind, known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workbench.quant.lint.findings import ERROR, NOTE, WARNING, Finding
from workbench.quant.lint.folder import Component
from workbench.quant.lint.methods import (
    AUTOROUND,
    FP8,
    INT8,
    MODELOPT,
    algorithm,
    inner,
    known,
    mapping,
    method_of,
)

ALGORITHMS = (
    "FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO", "NVFP4", "W4A16_NVFP4", "MXFP8",
    "MIXED_PRECISION",
)  # fmt: skip
"""Of vllm/model_executor/layers/quantization/modelopt.py."""
_NEEDED = {
    AUTOROUND: (("bits", "weight_bits"), ("group_size",)),
    "gptq": (("bits",), ("group_size",)),
    "awq": (("bits", "w_bit"), ("group_size", "q_group_size")),
}
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("extra_config", "quantized_layers", "config_groups", "producer"), (dict,)),
    **dict.fromkeys(("ignore", "exclude_modules"), (list,)),
    "block_name_to_quantize": (str, list),
}
_JSON = {dict: "an object", list: "a list", str: "text"}
_NUMBERS = ("bits", "weight_bits", "group_size")


def check_fields(component: Component) -> Iterator[Finding]:
    """Every config that speaks of this component."""
    for where, config in component.said.items():
        file = where.partition(":")[0]
        method = method_of(config)
        if not method.raw:
            message = "names no quant_method, so engines read it as no quantization; add one"
            yield Finding(ERROR, "method-missing", file, "", message)
        elif not method.canonical:
            message = f"quant_method {method.raw!r} is unknown; known spellings are {known()}"
            yield Finding(ERROR, "method-unknown", file, "", message)
        else:
            yield from _fields(component, file, config, method.canonical)


def _fields(
    component: Component, file: str, config: dict[str, Any], method: str
) -> Iterator[Finding]:
    for names in _NEEDED.get(method, ()):
        if all(config.get(name) is None for name in names):
            message = f"{file} gives no {names[0]}, which every {method} reader needs; add it"
            yield Finding(ERROR, "field-missing", file, "", message)
    yield from _numbers(file, config)
    yield from _kinds(file, config)
    if method in _NEEDED and config.get("sym", True) is None:
        message = "sym is null, so whether zero points count is unknown; write true or false"
        yield Finding(NOTE, "sym-unknown", file, "", message)
    if method == MODELOPT:
        yield from _algorithm(file, config)
    yield from _serialized(component, file, config, method)


def _numbers(file: str, config: dict[str, Any]) -> Iterator[Finding]:
    for name in _NUMBERS:
        value = config.get(name)
        if isinstance(value, str):
            good = value.strip().lstrip("-").isdigit()
            yield Finding(
                NOTE if good else ERROR, "field-type", file, "",
                f"{name} is the string {value!r}"
                + (f", read here as {int(value)}; write a number" if good else ", no number"),
            )  # fmt: skip
        elif value is not None and not _integers(value):
            message = f"{name} is {value!r}; it must be an integer, or two for blocks"
            yield Finding(ERROR, "field-type", file, "", message)


def _kinds(file: str, config: dict[str, Any]) -> Iterator[Finding]:
    for name, kinds in _KINDS.items():
        value = config.get(name)
        if value is not None and not isinstance(value, kinds):
            due = " or ".join(_JSON[kind] for kind in kinds)
            yield Finding(ERROR, "field-type", file, "", f"{name} is {value!r}; it must be {due}")


def _integers(value: Any) -> bool:
    several = value if isinstance(value, list) and len(value) == 2 else [value]
    return all(type(one) is int for one in several)


def _algorithm(file: str, config: dict[str, Any]) -> Iterator[Finding]:
    found = algorithm(config)
    if found not in ALGORITHMS:
        message = f"quant_algo {found or 'is missing'}; vLLM 0.30 reads {', '.join(ALGORITHMS)}"
        yield Finding(ERROR, "algorithm-unknown", file, "", message)
    layers = mapping(inner(config).get("quantized_layers"))
    if found == "MIXED_PRECISION" and not layers:
        message = "MIXED_PRECISION needs quantized_layers, a scheme for each layer; export again"
        yield Finding(ERROR, "field-missing", file, "", message)
    for name, entry in layers.items():
        algo = str(mapping(entry).get("quant_algo")).upper()
        if algo not in ALGORITHMS[:-1]:
            message = (
                f"quantized_layers gives it {algo}; vLLM 0.30 reads {', '.join(ALGORITHMS[:-1])}"
            )
            yield Finding(ERROR, "algorithm-unknown", file, name, message)


_FLAGS = {FP8: "is_checkpoint_fp8_serialized", INT8: "is_checkpoint_int8_serialized"}


def _serialized(
    component: Component, file: str, config: dict[str, Any], method: str
) -> Iterator[Finding]:
    flag = _FLAGS.get(method)
    stored = [linear for linear in component.quantized.values() if "weight_scale" in linear.tensors]
    if flag and stored and not config.get(flag):
        yield Finding(
            ERROR, "flag-missing", file, "",
            f"{len(stored)} linears are stored with scales, but {flag} is not true: the engine "
            f"would quantize their bytes anew and read no scale; add {flag}: true",
        )  # fmt: skip
    if flag and config.get(flag) and not component.quantized:
        message = f"{flag} is true, but no linear is stored that way; drop it, or export again"
        yield Finding(WARNING, "flag-surplus", file, "", message)
