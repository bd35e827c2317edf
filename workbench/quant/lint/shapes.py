"""Shapes of packed tensors against one another, groups, tiles and tensor-parallel ranks."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.quant.lint.assignment import assigned, integer
from workbench.quant.lint.findings import ERROR, NOTE, WARNING, Finding
from workbench.quant.lint.folder import Component
from workbench.quant.lint.methods import AUTOROUND, mapping
from workbench.schemes import INTEGER, SCHEMES
from workbench.zoo.inventory import StoredLinear
from workbench.zoo.names import runtime_name
from workbench.zoo.presets import Preset, kept_reason

_OUTPUTS = {"W4A16": 8, "W8A16": 4}
"""Values to an int32 word of zero points."""
_TILES = {"W4A16": (32, 32), "W8A16": (32, 32), "NVFP4": (16, 16), "MXFP4": (32, 16)}
"""Multiples of (inputs, outputs) that vLLM's kernels want; FP8 and MXFP8 below."""
_FP8_TILE = (16, 16)
_SIZES = (1, 2, 4, 8)
_SCALARS = ("weight_scale_2", "input_scale")
Shape = tuple[int, ...]


def check_shapes(component: Component) -> Iterator[Finding]:
    """Every packed linear, and what ranks it can be split among."""
    packed = [x for x in component.quantized.values() if x.scheme in SCHEMES]
    for linear in packed:
        file = component.file_of(next(iter(linear.tensors.values())))
        for part, problem in _wrong(component, linear):
            message = f"{problem}; quantize the layer again"
            yield Finding(ERROR, "shape", file, f"{linear.name}.{part}", message)
        if _runs_packed(component, linear):
            yield from _tiles(linear, file)
    if packed and component.preset is not None:
        running = [linear for linear in packed if _runs_packed(component, linear)]
        yield _ranks(component, component.preset, running)


def _runs_packed(component: Component, linear: StoredLinear) -> bool:
    """Whether the engine has a quantized layer for it, and does not dequantize it at load."""
    preset, method = component.preset, component.method.canonical
    return preset is None or kept_reason(preset, linear.name, method) is None


def _wrong(component: Component, linear: StoredLinear) -> Iterator[tuple[str, str]]:
    check = _integers if linear.scheme in INTEGER else _floats
    yield from check(component, linear)
    for part in _SCALARS:
        facts = linear.tensors.get(part)
        if facts is not None and facts.parameters != 1:
            yield part, f"has shape {list(facts.shape)} where one number is due"


def _integers(component: Component, linear: StoredLinear) -> Iterator[tuple[str, str]]:
    parts, (outputs, inputs) = linear.tensors, linear.shape
    scales, zeros = parts.get("scales"), parts.get("qzeros")
    per_word = _OUTPUTS[linear.scheme]
    if scales is None or len(scales.shape) != 2 or not scales.shape[0]:
        yield "scales", "is no matrix of groups by outputs" if scales is not None else "is missing"
        return
    groups = scales.shape[0]
    if scales.shape[1] != outputs:
        yield "scales", f"has {scales.shape[1]} columns, qweight {outputs} outputs"
    if zeros is not None and zeros.shape != (groups, outputs // per_word):
        due = [groups, outputs // per_word]
        yield (
            "qzeros",
            f"has shape {list(zeros.shape)}; {linear.scheme} with these scales has {due}",
        )
    if outputs % per_word:
        yield "qweight", f"has {outputs} outputs, no multiple of {per_word}, an int32 of zeros"
    planned = _group(component, linear)
    if inputs % groups:
        yield "scales", f"has {groups} groups, which do not divide the {inputs} inputs"
    elif planned and inputs % planned == 0 and inputs // groups != planned:
        yield "scales", f"has groups of {inputs // groups} inputs, the config says {planned}"
    elif planned and inputs % planned:
        yield "qweight", f"has {inputs} inputs, no multiple of the config's group_size {planned}"


def _group(component: Component, linear: StoredLinear) -> int | None:
    """The group size that an AutoRound config gives a layer; None if it says none."""
    config = component.quantization
    if component.method.canonical != AUTOROUND:
        return None
    size = integer(config.get("group_size"))
    if component.preset is not None:
        layer = runtime_name(component.preset, linear.name)
        _, key = assigned(AUTOROUND, config, layer)
        entry = mapping(mapping(config.get("extra_config")).get(key))
        size = integer(entry.get("group_size", size))
    return size if size and size > 0 else None


def _floats(component: Component, linear: StoredLinear) -> Iterator[tuple[str, str]]:
    scale, (outputs, inputs) = linear.tensors.get("weight_scale"), linear.shape
    if scale is None:
        return
    block = SCHEMES[linear.scheme].block
    if not block:
        if scale.shape not in ((), (1,), (outputs,), (outputs, 1)):
            due = f"one number or {outputs}"
            yield "weight_scale", f"has shape {list(scale.shape)} where {due} are due"
        return
    if inputs % block:
        yield SCHEMES[linear.scheme].weight, f"has {inputs} inputs, no multiple of {block}"
    elif scale.shape != (outputs, inputs // block):
        due = [outputs, inputs // block]
        yield "weight_scale", f"has shape {list(scale.shape)}; blocks of {block} make it {due}"


def _tiles(linear: StoredLinear, file: str) -> Iterator[Finding]:
    outputs, inputs = linear.shape
    rows, columns = _TILES.get(linear.scheme, _FP8_TILE)
    if inputs % rows or outputs % columns:
        yield Finding(
            WARNING, "tile", file, linear.name,
            f"{inputs} inputs and {outputs} outputs; {linear.scheme} kernels want multiples of "
            f"{rows} and {columns}, and others are slow or refuse: keep it in 16 bit",
        )  # fmt: skip


def _ranks(component: Component, preset: Preset, packed: list[StoredLinear]) -> Finding:
    heads = [h for key in preset.heads if type(h := component.config.get(key)) is int]
    fitting = [
        size
        for size in _SIZES
        if not any(h % size for h in heads) and not any(_cut(preset, x, size) for x in packed)
    ]
    blocking = next((x.name for x in packed if _cut(preset, x, 8)), "")
    shown = ", ".join(map(str, fitting)) or "none"
    message = f"runs at tensor_parallel_size {shown}" + (
        f"; {blocking} does not split among 8 ranks" if blocking else ""
    )
    return Finding(NOTE, "tensor-parallel", component.where, "", message)


def _cut(preset: Preset, linear: StoredLinear, size: int) -> bool:
    """Whether some of that many ranks would get part of a block of scales, or of a tile."""
    outputs, inputs = linear.shape
    if linear.name.endswith(preset.replicated):
        return False
    if linear.name.endswith(preset.row_parallel):
        block = linear.group or SCHEMES[linear.scheme].block or _FP8_TILE[0]
        return bool(inputs % size or inputs // size % block)
    return bool(outputs % size or outputs // size % _FP8_TILE[1])
