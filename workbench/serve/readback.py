"""The weight of a loaded linear, as its kernel multiplies it, against the tensor of a file.

Whatever a kernel packed its weight into, a row of zeros with one entry ``s`` in channel ``c`` comes
out as ``s`` times column ``c`` of the weight. Runs inside the workers.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from workbench.serve.modules import own_tensors, size
from workbench.serve.stored_weights import stored_rows

ROWS = 64  # of each member, spread over its outputs
CHANNELS = 32  # half of them those with the largest weights, half spread over the inputs
PAIR = 2  # neighbours, so that formats with blocks of inputs hold both in one
PROBE = 51 / 128
"""Input of the second entry, in units of the first; each format rounds it to another value."""
ROUNDED = {
    "16-bit": PROBE,
    "FP8": 176 / 448,
    "INT8": 51 / 127,
    "NVFP4": 2 / 6,
    "MXFP8": 104 / 256,
    "MXFP4": 1.5 / 4,
}
"""What PROBE becomes when the larger entry is the largest that the format holds."""
NEAR = 0.4  # of the way to the next of them


@torch.inference_mode()
def read_back(module: torch.nn.Module, sample: dict[str, Any]) -> dict[str, Any]:
    """Multiply one-hot rows with a linear and compare what comes out with its source.

    Args:
        module: A linear of vLLM or torch, loaded.
        sample: ``members``: for each linear that is loaded into it, in the order of its outputs,
            what :func:`stored_rows` takes, and its ``shape``; none to compare with nothing.
            ``scale``: s, at which the activation quantization of the layer is exact.

    Returns:
        ``errors``: part of the outputs -> ||loaded - source|| / ||source||, for each half of each
        member; ``error`` over all; ``inputs``: a name of ROUNDED, or ``""`` where none is near;
        ``input_scale``: the layer's own, if it has one; or ``failed``, and why.
    """
    try:
        return _read_back(module, sample)
    except Exception as error:  # reported as not proved: a kernel may want what a lone call lacks
        return {"failed": f"{type(error).__name__}: {error}"}


def _read_back(module: torch.nn.Module, sample: dict[str, Any]) -> dict[str, Any]:
    widths = list(getattr(module, "output_partition_sizes", None) or [size(module, "output")])
    chosen = [torch.linspace(0, width - 1, min(ROWS, width)).long() for width in widths]
    offsets = [sum(widths[:index]) for index in range(len(widths))]
    outputs = torch.cat([rows + offset for rows, offset in zip(chosen, offsets, strict=True)])
    source = _source(module, sample["members"], widths, chosen)
    channels = _channels(size(module, "input"), source)
    columns, inputs = _columns(module, channels, sample["scale"], sum(widths))
    result = {"inputs": inputs, "input_scale": _input_scale(module)}
    loaded = columns[:, outputs].T
    if not torch.isfinite(loaded).all():
        return {**result, "failed": "its products are not finite"}
    if source is None:
        return result
    wanted = source[:, channels]
    parts = [member["part"] for member in sample["members"]]
    return {
        **result,
        "error": _relative(loaded, wanted),
        "errors": _halves(loaded, wanted, parts, [len(rows) for rows in chosen]),
    }


def _source(
    module: torch.nn.Module,
    members: list[dict[str, Any]],
    widths: list[int],
    chosen: list[Tensor],
) -> Tensor | None:
    """float32 [rows, inputs of this rank] of the chosen outputs, or None without a source."""
    if not members:
        return None
    if len(members) != len(widths):
        raise ValueError(f"{len(widths)} parts are loaded from {len(members)} linears of the files")
    rank, inputs = getattr(module, "tp_rank", 0), size(module, "input")
    parts = []
    for member, width, rows in zip(members, widths, chosen, strict=True):
        outputs, columns = member["shape"]
        first_row = rank * width if outputs > width else 0
        first_column = rank * inputs if columns > inputs else 0
        whole = stored_rows(member, rows + first_row)
        parts.append(whole[:, first_column : first_column + inputs])
    return torch.cat(parts)


def _channels(inputs: int, source: Tensor | None) -> Tensor:
    """Even channels, each with its odd neighbour: the largest of the source, and some spread."""
    spread = torch.linspace(0, inputs // PAIR - 1, min(CHANNELS // PAIR, inputs // PAIR)).long()
    pairs = spread[::2]
    if source is not None:
        norms = source[:, : inputs // PAIR * PAIR].square().sum(0).reshape(-1, PAIR).amin(1)
        count = min(CHANNELS // PAIR // 2, len(norms))
        pairs = torch.cat([norms.topk(count).indices, pairs])
    pairs = torch.tensor(list(dict.fromkeys(pairs.tolist())))
    return torch.stack([PAIR * pairs, PAIR * pairs + 1], dim=1).flatten()


def _columns(
    module: torch.nn.Module, channels: Tensor, scale: float, width: int
) -> tuple[Tensor, str]:
    """float32 [channels, outputs] of the weight, and what the layer does to its inputs."""
    tensor = next((t for _, t in own_tensors(module)), torch.empty(0))  # else packed, on CPU
    dtype = getattr(module, "params_dtype", tensor.dtype)
    rows = torch.zeros(len(channels) + 1, size(module, "input"), dtype=dtype)
    rows[torch.arange(len(channels)), channels] = scale
    rows[-1, channels[0]] = scale
    rows[-1, channels[1]] = PROBE * scale
    products = _product(module, rows.to(tensor.device))[:, :width].float().cpu() / scale
    return products[:-1], _inputs(products[0], products[1], products[-1])


def _product(module: torch.nn.Module, rows: Tensor) -> Tensor:
    method = getattr(module, "quant_method", None)
    if method is None:
        return torch.nn.functional.linear(rows, module.weight)
    return method.apply(module, rows, bias=None)


def _inputs(first: Tensor, second: Tensor, both: Tensor) -> str:
    """Which format rounded PROBE: the share of the second column in the product of both."""
    norm = second.square().sum()
    if not norm > 0:
        return ""
    found = float((both - first) @ second / norm)
    name = min(ROUNDED, key=lambda one: abs(ROUNDED[one] - found))
    apart = min(abs(value - ROUNDED[name]) for one, value in ROUNDED.items() if one != name)
    return name if abs(ROUNDED[name] - found) < NEAR * apart else ""


def _input_scale(module: torch.nn.Module) -> float | None:
    for name in ("input_global_scale", "input_scale"):
        value = getattr(module, name, None)
        if torch.is_tensor(value) and value.numel() == 1:
            return float(value)
    return None


def _halves(
    loaded: Tensor, wanted: Tensor, parts: list[str], counts: list[int]
) -> dict[str, float]:
    """Error of the first and the second half of each member's rows."""
    errors = {}
    ends = [sum(counts[:index]) for index in range(len(counts) + 1)]
    for part, (start, end) in zip(parts, pairwise(ends), strict=True):
        middle = (start + end + 1) // 2
        for half, rows in (("first", slice(start, middle)), ("second", slice(middle, end))):
            if rows.start < rows.stop:
                errors[f"{half} half of {part}"] = _relative(loaded[rows], wanted[rows])
    return errors


def _relative(loaded: Tensor, wanted: Tensor) -> float | None:
    """None where the source is all zero: there is nothing to be wrong by."""
    norm = torch.linalg.vector_norm(wanted)
    return float(torch.linalg.vector_norm(loaded - wanted) / norm) if norm > 0 else None
