"""From generations to findings: numbers, tables, figures and one HTML report.

Light to import: scikit-image, plotly and papermill load on first use, each in the one module that
owns it.
"""

from workbench.eval.comparison import Comparison, compare
from workbench.eval.report import report
from workbench.eval.styling import style
from workbench.eval.summary import summary

__all__ = ["Comparison", "compare", "report", "style", "summary"]
