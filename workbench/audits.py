"""What really runs: every linear of a loaded model, and the verdict on its precision. No torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from workbench.schemes import INTEGER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

Verdict = Literal["as requested", "partly", "not applied"]
Kind = Literal["native", "weight-only", "emulated", "reference"]
BYTES_16_BIT = 2
NOTES: dict[str, str] = {
    "weight-only": "weight-only: packed weights, 16-bit products",
    "emulated": "emulated: right numerics, no speed",
    "reference": "reference kernels: right numerics, no speed",
}
WHOLE = tuple(("weight-only", scheme) for scheme in INTEGER)
"""These schemes leave activations in 16 bit, so a weight-only kernel is all that they ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCensus:
    """One linear of the loaded model, as the worker holds it."""

    name: str
    layer: str
    """Class of the module, e.g. QKVParallelLinear."""
    method: str
    """Class of its quantization method, or ``none`` for a plain torch linear."""
    kernel: str
    """Class that multiplies, e.g. CutlassFP8ScaledMMLinearKernel."""
    weight_dtype: str
    """Of the loaded weight, by torch's name."""
    weight_bytes: int
    parameters: int
    quantized: bool
    """Whether the loaded weight has fewer than 16 bits."""
    reference_kernel: bool
    """Right numerics, no speed: times at this precision mean nothing."""
    scheme: str = ""
    """What it should run in: by the files, or by the online quantization; empty if unknown."""
    found: str = ""
    """What it runs in, by loaded dtype, bits a weight and kernel."""
    file_dtype: str = ""
    """Of its weight in the files, by safetensors' name; several joined by ``+``."""
    kind: Kind = "native"
    """Whether the kernel multiplies as the format says."""
    activations: str = ""
    """What happens to its inputs, measured where sampled: 16-bit, FP8 per token, NVFP4, ..."""
    weight_error: float | None = None
    """||loaded - source|| / ||source|| of the sampled part of the weight; None if not sampled."""
    rows: int | None = None
    """Inputs that it multiplied in the first request, on rank 0; None if not counted."""
    reason: str = ""
    """Why it stayed in 16 bit, if it did."""
    by_design: bool = True
    """Whether the model or the checkpoint itself keeps it in 16 bit."""

    @property
    def component(self) -> str:
        """Transformer that it is a linear of."""
        return self.name.partition(".")[0]


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What really runs, read from the loaded modules."""

    requested: str
    verdict: Verdict
    layers: tuple[LayerCensus, ...]
    platform: str
    attention_backend: str
    world_sizes: dict[str, int]
    """Sizes of the process groups, read back from the workers."""
    weight_bytes: dict[str, int]
    """Parameters and buffers of each component of rank 0."""
    missing: tuple[str, ...] = ()
    """Quantized linears of the files that no loaded layer was found for."""
    proved: str = ""
    """What the comparison of loaded weights with their source found."""

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Audit:
        """Read what :meth:`to_json` gave."""
        layers = tuple(LayerCensus(**layer) for layer in value["layers"])
        return cls(**{**value, "layers": layers, "missing": tuple(value.get("missing", ()))})

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def counted(self, rows: Mapping[str, int]) -> Audit:
        """The same with the rows that each layer multiplied in one request, by its name."""
        layers = tuple(replace(layer, rows=rows.get(layer.name, 0)) for layer in self.layers)
        return replace(self, layers=layers)

    @property
    def kept(self) -> tuple[LayerCensus, ...]:
        """The linears of the transformer that stayed in 16 bit."""
        return tuple(layer for layer in self.layers if not layer.quantized)

    @property
    def kernels(self) -> dict[str, int]:
        """Kernel class of the quantized linears, or of all at 16 bit -> number of them."""
        return _counted(layer.kernel for layer in self._shown)

    @property
    def kinds(self) -> dict[str, int]:
        """Kind of kernel of the quantized linears, or of all at 16 bit -> number of them."""
        return _counted(layer.kind for layer in self._shown)

    @property
    def reference_kernels(self) -> bool:
        """Whether a kernel with the right numerics and no speed ran."""
        return any(layer.reference_kernel for layer in self.layers)

    @property
    def coverage(self) -> float:
        """Share of all transformers' linear parameters that run quantized, 0 to 1."""
        return _share(self.layers)

    @property
    def shares(self) -> dict[str, float]:
        """Transformer -> the same share of its own linear parameters."""
        names = dict.fromkeys(layer.component for layer in self.layers)
        return {
            name: _share([layer for layer in self.layers if layer.component == name])
            for name in names
        }

    @property
    def unquantized(self) -> tuple[str, ...]:
        """Transformers without a quantized linear, beside one that has some."""
        shares = self.shares
        return tuple(name for name, share in shares.items() if not share and any(shares.values()))

    @property
    def flops_coverage(self) -> float | None:
        """Share of the linears' multiplications that run quantized, 0 to 1.

        A linear takes ``rows * parameters`` of them. None before the first request, and in a
        compiled model, where nothing is counted.
        """
        if not self.layers or any(layer.rows is None for layer in self.layers):
            return None
        work = {layer.name: layer.parameters * (layer.rows or 0) for layer in self.layers}
        quantized = sum(work[layer.name] for layer in self.layers if layer.quantized)
        return quantized / max(sum(work.values()), 1)

    @property
    def bytes_saved(self) -> int:
        """Bytes of the quantized linears at 16 bit, less what they hold; of rank 0."""
        return sum(
            BYTES_16_BIT * layer.parameters - layer.weight_bytes
            for layer in self.layers
            if layer.quantized
        )

    def _notable(self) -> dict[str, int]:
        """Kinds of kernel that do less, or slower, than the format asks for -> linears."""
        kinds = ("reference" if x.reference_kernel else x.kind for x in self._shown)
        pairs = zip(kinds, (x.found for x in self._shown), strict=True)
        return _counted(
            kind for kind, found in pairs if kind in NOTES and (kind, found) not in WHOLE
        )

    @property
    def _shown(self) -> tuple[LayerCensus, ...]:
        return tuple(layer for layer in self.layers if layer.quantized) or self.layers

    def table(self) -> pd.DataFrame:
        """One row a linear, its columns the fields of :class:`LayerCensus`.

        With several transformers also ``component``, which of them it is of.
        """
        import pandas as pd

        table = pd.DataFrame([asdict(layer) for layer in self.layers])
        if len(self.shares) > 1:
            table.insert(0, "component", [layer.component for layer in self.layers])
        return table

    def _shares(self) -> str:
        shares = self.shares
        if len(shares) < 2:
            return f"{self.coverage:.0%} of linear parameters"
        each = [f"{share:.0%} of {name}'s" for name, share in shares.items()]
        return f"{' and '.join(each)} linear parameters"

    def __str__(self) -> str:
        kernels = ", ".join(f"{count} x {name}" for name, count in self.kernels.items())
        notes = ", ".join(
            NOTES[kind] if count == len(self._shown) else f"{count} {NOTES[kind]}"
            for kind, count in self._notable().items()
        )
        flops = self.flops_coverage
        parts = [
            kernels + (f" ({notes})" if notes else ""),
            f"{self._shares()} quantized"
            + ("" if flops is None else f", {flops:.0%} of their multiplications"),
            *(f"{name} runs in 16 bit" for name in self.unquantized),
            f"{len(self.missing)} linears of the files not found" if self.missing else "",
            self.proved,
        ]
        return f"{self.requested}: {self.verdict}; {'; '.join(part for part in parts if part)}"


def _share(layers: Sequence[LayerCensus]) -> float:
    total = sum(layer.parameters for layer in layers)
    return sum(layer.parameters for layer in layers if layer.quantized) / max(total, 1)


def _counted(names: Iterable[str]) -> dict[str, int]:
    every = list(names)
    return {name: every.count(name) for name in dict.fromkeys(every)}
