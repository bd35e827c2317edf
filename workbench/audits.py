"""What really runs: every linear of a loaded model, and the verdict on its precision. No torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd

Verdict = Literal["as requested", "partly", "not applied"]


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
    weight_bytes: int
    parameters: int
    quantized: bool
    reference_kernel: bool
    """Right numerics, no speed: times at this precision mean nothing."""
    reason: str = ""
    """Why it stayed in 16 bit, if it did."""
    by_design: bool = True
    """Whether the model itself keeps it in 16 bit."""


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

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Audit:
        """Read what :meth:`to_json` gave."""
        return cls(**{**value, "layers": tuple(LayerCensus(**layer) for layer in value["layers"])})

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @property
    def kept(self) -> tuple[LayerCensus, ...]:
        """The linears of the transformer that stayed in 16 bit."""
        return tuple(layer for layer in self.layers if not layer.quantized)

    @property
    def kernels(self) -> dict[str, int]:
        """Kernel class of the quantized linears, or of all at 16 bit -> number of them."""
        shown = [layer for layer in self.layers if layer.quantized] or self.layers
        names = [layer.kernel for layer in shown]
        return {name: names.count(name) for name in dict.fromkeys(names)}

    @property
    def reference_kernels(self) -> bool:
        """Whether a kernel with the right numerics and no speed ran."""
        return any(layer.reference_kernel for layer in self.layers)

    @property
    def coverage(self) -> float:
        """Share of the transformer's linear parameters that run quantized, 0 to 1."""
        total = sum(layer.parameters for layer in self.layers)
        return sum(layer.parameters for layer in self.layers if layer.quantized) / max(total, 1)

    def table(self) -> pd.DataFrame:
        """One row a linear."""
        import pandas as pd

        return pd.DataFrame([asdict(layer) for layer in self.layers])

    def __str__(self) -> str:
        kernels = ", ".join(f"{count} x {name}" for name, count in self.kernels.items())
        note = " (reference kernels: right numerics, no speed)" if self.reference_kernels else ""
        return (
            f"{self.requested}: {self.verdict}; {kernels}{note}; "
            f"{self.coverage:.0%} of linear parameters quantized"
        )
