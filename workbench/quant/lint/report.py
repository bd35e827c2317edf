"""All that a lint found, in order of weight."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.quant.lint.findings import ERROR, SEVERITIES, Finding
from workbench.quant.lint.methods import MethodName
from workbench.quant.lint.prediction import Prediction

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 5  # findings of each severity in the printed summary
_GB = 1e9


@dataclass(frozen=True, kw_only=True)
class LintReport:
    """What is wrong with a checkpoint folder, and what engines will make of it."""

    folder: Path
    findings: tuple[Finding, ...]
    """Errors first."""
    bytes_by_component: dict[str, dict[str, int | None]]
    """Component -> ``used`` bytes, None if a file is missing, and ``total`` bytes on disk."""
    bytes_by_scheme: dict[str, dict[str, int]]
    """Component -> number format -> bytes, scales counted with their weights."""
    coverage: dict[str, float]
    """Transformer -> share of its linear parameters in fewer than 16 bits, 0 to 1."""
    method: MethodName
    """Of the first quantized transformer, as spelled and by its one name."""
    stock: tuple[Prediction, ...]
    """What vLLM-Omni 0.30.0 by itself does with each component."""
    plugin: tuple[Prediction, ...]
    """What it does with the workbench's general plugin."""

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not self.of(ERROR)

    def of(self, severity: str) -> tuple[Finding, ...]:
        """The findings of one severity."""
        return tuple(finding for finding in self.findings if finding.severity == severity)

    def table(self) -> pd.DataFrame:
        """One row a finding: severity, rule, file, tensor, message."""
        import pandas as pd

        columns = list(Finding.__dataclass_fields__)
        return pd.DataFrame([asdict(finding) for finding in self.findings], columns=columns)

    def __str__(self) -> str:
        counts = ", ".join(f"{len(self.of(s))} {s}s" for s in SEVERITIES)
        lines = [f"{self.folder.name}: {counts}; method {self.method}"]
        for severity in SEVERITIES:
            found = self.of(severity)
            lines += [f"  {severity}: {_line(finding)}" for finding in found[:_SHOWN]]
            if len(found) > _SHOWN:
                lines.append(f"  {severity}: and {len(found) - _SHOWN} more; see .table()")
        for title, predictions in (("stock vLLM-Omni", self.stock), ("with plugin", self.plugin)):
            told = [str(p) for p in predictions if p.method or p.outcome != "16 bit"]
            lines.append(f"  {title}: {'; '.join(told) or 'all in 16 bit'}")
        if any(self.coverage.values()):
            told = [f"{name} {share:.0%}" for name, share in self.coverage.items()]
            lines.append(f"  quantized, of linear parameters: {', '.join(told)}")
        lines.append(f"  bytes: {'; '.join(self._sizes())}")
        return "\n".join(lines)

    def _sizes(self) -> list[str]:
        shown = []
        for name, sizes in self.bytes_by_component.items():
            used = sizes["used"]
            size = "unknown, a file is missing" if used is None else f"{used / _GB:.3f} GB"
            if used is not None and sizes["total"] != used:
                size += f" of {sizes['total'] / _GB:.3f} on disk"  # type: ignore[operator]
            schemes = self.bytes_by_scheme.get(name, {})
            parts = ", ".join(f"{scheme} {n / _GB:.3f}" for scheme, n in schemes.items())
            shown.append(f"{name} {size}" + (f" ({parts})" if len(schemes) > 1 else ""))
        return shown


def _line(finding: Finding) -> str:
    place = " ".join(filter(None, (finding.file, finding.tensor)))
    return f"[{finding.rule}] {place}: {finding.message}"
