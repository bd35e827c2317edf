"""A quantized pipeline, as a frozen value that loads from its folder. No torch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import store
from workbench.errors import StoreError
from workbench.recipes import QuantRecipe
from workbench.specs import ModelRef

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerError:
    """Weight error of one quantized linear: ||dequantized - original|| / ||original||."""

    component: str
    name: str
    scheme: str
    relative_error: float
    parameters: int


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A quantized pipeline in diffusers layout, servable as it lies."""

    path: Path
    model: ModelRef
    recipe: QuantRecipe
    bytes_before: dict[str, int]
    """Weight bytes of each component of the source, from its files."""
    bytes_after: dict[str, int]
    layers: tuple[LayerError, ...] = field(repr=False)
    kept: dict[str, dict[str, str]] = field(repr=False)
    """Component -> linear inside the blocks that stayed in 16 bit -> why."""
    tensor_parallel_sizes: tuple[int, ...]
    """Ranks, of 1, 2, 4 and 8, among which its linears split without cutting a block of scales."""
    elapsed_s: float
    provenance: dict[str, Any] = field(repr=False)
    coverage: dict[str, float] = field(default_factory=dict)
    """Transformer -> share of its linear parameters that are quantized, 0 to 1; empty in what
    older versions wrote."""
    calibration_note: str = ""
    """Of a model that draws from first frames: how many of its calibration runs began with one."""

    @classmethod
    def load(cls, folder: Path) -> Checkpoint:
        """Read a checkpoint folder of the store."""
        manifest = store.read(folder)
        return cls(
            path=folder,
            model=ModelRef(**manifest["spec"]["model"]),
            recipe=QuantRecipe(**manifest["spec"]["recipe"]),
            bytes_before=manifest["bytes_before"],
            bytes_after=manifest["bytes_after"],
            layers=tuple(LayerError(**layer) for layer in manifest["layers"]),
            kept=manifest["kept"],
            tensor_parallel_sizes=tuple(manifest["tensor_parallel_sizes"]),
            elapsed_s=manifest["elapsed_s"],
            provenance=manifest["provenance"],
            coverage=manifest.get("coverage", {}),
            calibration_note=manifest.get("calibration_note", ""),
        )

    @property
    def key(self) -> str:
        """First 12 hex digits that name its folder."""
        return self.path.name

    def layer_table(self) -> pd.DataFrame:
        """One row a quantized linear, worst first: component, name, scheme, relative_error, ..."""
        import pandas as pd

        table = pd.DataFrame([asdict(layer) for layer in self.layers])
        return table.sort_values("relative_error", ascending=False, ignore_index=True)

    def size_table(self) -> pd.DataFrame:
        """One row a component: weight bytes before and after, and their ratio."""
        import pandas as pd

        rows = [
            {"component": name, "bytes_before": before, "bytes_after": self.bytes_after[name]}
            for name, before in self.bytes_before.items()
        ]
        return pd.DataFrame(rows).assign(ratio=lambda t: t.bytes_after / t.bytes_before)

    def kept_table(self) -> pd.DataFrame:
        """One row a linear inside the blocks that stayed in 16 bit: component, name, reason."""
        import pandas as pd

        rows = [(part, name, why) for part, kept in self.kept.items() for name, why in kept.items()]
        return pd.DataFrame(rows, columns=["component", "name", "reason"])

    def sensitivity_table(self) -> pd.DataFrame:
        """One row a layer, most sensitive first, of a recipe with ``effective_bits``.

        Columns: component, group, linears, parameters, error_SCHEME (relative error of the
        transformer's output with only this layer in it) for both schemes, scheme (the chosen one).

        Raises:
            StoreError: the recipe measured none.
        """
        table = self._measured("sensitivity.json", "scheme='MIXED' with effective_bits")
        worst = max(
            (name for name in table if name.startswith("error_")), key=lambda n: table[n].sum()
        )
        return table.sort_values(worst, ascending=False, ignore_index=True)

    def range_table(self) -> pd.DataFrame:
        """One row a linear and denoising step: component, name, step, timestep, amax.

        ``amax`` is the largest absolute input in calibration, before quantization.

        Raises:
            StoreError: no calibration run of the workbench's own was made.
        """
        return self._measured("activation_ranges.json", "a calibration of the workbench's own")

    def _measured(self, name: str, recipe: str) -> pd.DataFrame:
        import pandas as pd

        if not (self.path / name).is_file():
            raise StoreError(f"{self.path} holds no {name}; it comes with {recipe}")
        return pd.DataFrame(json.loads((self.path / name).read_text()))
