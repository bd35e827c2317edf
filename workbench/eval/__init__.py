"""From generations to findings: numbers, tables, figures and one HTML report.

Light to import: OpenCV, torchmetrics, plotly and papermill load on first use, each in the modules
that own it.
"""

from workbench.eval.comparison import Comparison, compare
from workbench.eval.report import report
from workbench.eval.styling import style
from workbench.eval.summary import summary
from workbench.eval.velocity import velocity_errors

__all__ = ["Comparison", "compare", "report", "style", "summary", "velocity_errors"]
