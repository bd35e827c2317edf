"""Recipe -> checkpoint, and what is wrong with one."""

from workbench.quant.checkpoint import quantize
from workbench.quant.commands import recipe_from_command
from workbench.quant.lint import lint

__all__ = ["lint", "quantize", "recipe_from_command"]
