"""Every error that the workbench raises on purpose.

Each message names the value, what is allowed and the next step.
"""

from __future__ import annotations


class WorkbenchError(Exception):
    """Base of all of them."""


class SpecError(WorkbenchError, ValueError):
    """A request that cannot be carried out as written; raised before anything loads."""


class ModelNotFound(WorkbenchError, FileNotFoundError):
    """A model reference that leads to no diffusers pipeline."""


class NotSupportedHere(WorkbenchError, RuntimeError):
    """A valid request that this machine cannot serve."""


class StoreError(WorkbenchError, OSError):
    """The run folder cannot be written, or an artefact in it cannot be read."""


class QuantizationFailed(WorkbenchError, RuntimeError):
    """A quantizer ran and did not write what was asked for."""


class LaunchFailed(WorkbenchError, RuntimeError):
    """The engine did not start, or died."""


class PrecisionNotApplied(WorkbenchError, RuntimeError):
    """The loaded modules do not run at the precision that was asked for."""


class ComparisonRefused(WorkbenchError, ValueError):
    """Two generation sets that differ in more than what is being compared."""


class ReportError(WorkbenchError, ValueError):
    """A notebook or its parameters cannot become a report."""
