"""Some rows of a weight as its file has it, turned back into numbers; runs inside the workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from safetensors import safe_open
from torch import Tensor

from workbench.serve.cpu import formats

Parts = Mapping[str, Tensor]


def stored_rows(member: Mapping[str, str | dict[str, str]], rows: Tensor) -> Tensor:
    """Chosen outputs of a linear of the files, float32 [rows, inputs].

    Args:
        member: ``part``: its name; ``scheme``: a name of SCHEMES, or of a 16-bit dtype; ``files``:
            last part of each tensor's name -> the file that it lies in.
        rows: Outputs, int64.
    """
    parts = {}
    for part, path in member["files"].items():
        with safe_open(path, framework="pt") as file:  # mapped: only what is indexed is read
            parts[part] = file.get_tensor(f"{member['part']}.{part}")
    return _READ.get(member["scheme"], _sixteen_bit)(parts, rows)


def _sixteen_bit(parts: Parts, rows: Tensor) -> Tensor:
    return parts["weight"][rows].float()


def _fp8(parts: Parts, rows: Tensor) -> Tensor:
    scale = parts["weight_scale"].float().reshape(-1, 1)
    return parts["weight"][rows].float() * (scale[rows] if scale.numel() > 1 else scale)


def _nvfp4(parts: Parts, rows: Tensor) -> Tensor:
    scales = parts["weight_scale"][rows], parts["weight_scale_2"]
    return formats.nvfp4_weight(parts["weight"][rows], *scales)


def _mxfp8(parts: Parts, rows: Tensor) -> Tensor:
    return formats.mxfp8_weight(parts["weight"][rows], parts["weight_scale"][rows])


def _mxfp4(parts: Parts, rows: Tensor) -> Tensor:
    packed = parts.get("weight_packed", parts.get("weight"))
    return formats.mxfp4_weight(packed[rows], parts["weight_scale"][rows])


def _integers(bits: int) -> Callable[[Parts, Tensor], Tensor]:
    def read(parts: Parts, rows: Tensor) -> Tensor:
        packed, scales = parts["qweight"][:, rows], parts["scales"][:, rows]
        return formats.integer_weight(packed, scales, bits).t()

    return read


_READ: dict[str, Callable[[Parts, Tensor], Tensor]] = {
    "W4A16": _integers(4),
    "W8A16": _integers(8),
    "FP8": _fp8,
    "FP8_PER_CHANNEL_PER_TOKEN": _fp8,
    "NVFP4": _nvfp4,
    "MXFP8": _mxfp8,
    "MXFP4": _mxfp4,
}
