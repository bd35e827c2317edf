"""What a component's files hold, linear by linear, from the headers alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

from workbench.schemes import SCHEMES, SIXTEEN_BIT
from workbench.zoo.weights import TensorFacts, tensors

WEIGHTS = ("qweight", "weight_packed", "weight")
GROUPED = ("scales", "weight_scale")
UNKNOWN = "unknown"
_PER_WORD = {"W4A16": 8, "W8A16": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLinear:
    """One linear as the file holds it."""

    name: str
    """Module, without the component, e.g. ``transformer_blocks.0.attn.to_q``."""
    scheme: str
    """A name of :data:`workbench.schemes.SCHEMES`, BF16, F16, F32, or ``unknown``."""
    shape: tuple[int, int]
    """(outputs, inputs) of the unpacked weight."""
    tensors: dict[str, TensorFacts]
    """Last part of the tensor's name -> what the header says: weight, scales, bias."""

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return self.shape[0] * self.shape[1]

    @property
    def group(self) -> int:
        """Input channels that share one scale; 0 where a row or the whole weight does."""
        scale = next((self.tensors[part] for part in GROUPED if part in self.tensors), None)
        if scale is None or len(scale.shape) != 2:
            return 0
        groups = scale.shape[0 if "scales" in self.tensors else 1]
        return self.shape[1] // groups if groups > 1 else 0

    @property
    def quantized(self) -> bool:
        """Whether it is stored in fewer than 16 bits."""
        return self.scheme not in SIXTEEN_BIT

    @property
    def dtype(self) -> str:
        """Of the stored weight, by safetensors' name."""
        return next(self.tensors[name].dtype for name in WEIGHTS if name in self.tensors)


def linears(folder: Path) -> dict[str, StoredLinear]:
    """Every module of a component with a two-dimensional or packed weight, by name.

    Raises:
        ModelNotFound: no whole safetensors file there.
    """
    return modules(tensors(folder))


def modules(found: Mapping[str, TensorFacts]) -> dict[str, StoredLinear]:
    """Every module with a two-dimensional or packed weight among some tensors, by name."""
    owners: dict[str, dict[str, TensorFacts]] = {}
    for name, facts in found.items():
        owner, _, part = name.rpartition(".")
        owners.setdefault(owner, {})[part] = facts
    every = (_linear(name, parts) for name, parts in sorted(owners.items()))
    return {linear.name: linear for linear in every if linear is not None}


def _linear(name: str, parts: dict[str, TensorFacts]) -> StoredLinear | None:
    weight = next((parts[part] for part in WEIGHTS if part in parts), None)
    if weight is None or len(weight.shape) != 2:
        return None
    scheme = _scheme(parts)
    shape = _unpacked(scheme, weight.shape, parts)
    return StoredLinear(name=name, scheme=scheme, shape=shape, tensors=parts)


def _scheme(parts: dict[str, TensorFacts]) -> str:
    if "qweight" in parts:
        return _integer(parts)
    if "weight_packed" in parts:  # int32 words, or NVFP4, of compressed-tensors are not told apart
        return "MXFP4" if _dtypes(parts, "weight_packed", "weight_scale") == "U8 U8" else UNKNOWN
    weight, scale = parts["weight"], parts.get("weight_scale")
    if weight.dtype in SIXTEEN_BIT:
        return weight.dtype
    if weight.dtype == "F8_E4M3":
        return _eight_bit_float(parts)
    if weight.dtype == "U8" and scale is not None:
        return "NVFP4" if scale.dtype == "F8_E4M3" else "MXFP4"
    return UNKNOWN


def _dtypes(parts: dict[str, TensorFacts], *names: str) -> str:
    return " ".join(parts[name].dtype for name in names if name in parts)


def _integer(parts: dict[str, TensorFacts]) -> str:
    scales = parts.get("scales")
    zeros = parts.get("qzeros")
    if scales is None or zeros is None or not _two(zeros.shape)[1]:
        return "W4A16"
    values = _two(scales.shape)[1] // _two(zeros.shape)[1]
    return "W8A16" if values == _PER_WORD["W8A16"] else "W4A16"


def _eight_bit_float(parts: dict[str, TensorFacts]) -> str:
    scale = parts.get("weight_scale")
    if scale is not None and scale.dtype in ("U8", "F8_E8M0"):
        return "MXFP8"
    if "weight_scale_inv" in parts or (scale is not None and min(_two(scale.shape)) > 1):
        return UNKNOWN  # blocks of rows and columns
    if scale is not None and scale.parameters > 1:
        return "FP8_PER_CHANNEL_PER_TOKEN"
    return "FP8"


def _two(shape: tuple[int, ...]) -> tuple[int, int]:
    """A scale's shape as rows and columns; a vector is a column."""
    rows, *others = shape or (1,)
    return rows, prod(others)


def _unpacked(
    scheme: str, shape: tuple[int, ...], parts: dict[str, TensorFacts]
) -> tuple[int, int]:
    if "qweight" in parts:
        scales, packed = parts.get("scales"), _PER_WORD[scheme]
        if scales is not None and scales.shape[-1:] == (shape[1] * packed,):
            return shape[1] * packed, shape[0]  # AWQ: [inputs, outputs / per word]
        return shape[1], shape[0] * packed  # GPTQ: [inputs / per word, outputs]
    packed_pairs = SCHEMES[scheme].stored == "U8" if scheme in SCHEMES else False
    return shape[0], shape[1] * (2 if packed_pairs else 1)
