"""Recipe -> checkpoint."""

from workbench.quant.checkpoint import quantize

__all__ = ["quantize"]
