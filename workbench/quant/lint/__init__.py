"""Check a checkpoint folder without a GPU."""

from workbench.quant.lint.findings import Finding
from workbench.quant.lint.report import LintReport
from workbench.quant.lint.run import lint

__all__ = ["Finding", "LintReport", "lint"]
