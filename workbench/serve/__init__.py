"""launch -> engine -> pictures."""

from workbench.serve.capabilities import capabilities
from workbench.serve.engine import Engine, generate, launch
from workbench.serve.reference import decode

__all__ = ["Engine", "capabilities", "decode", "generate", "launch"]
