"""launch -> engine -> pictures."""

from workbench.serve.capabilities import capabilities
from workbench.serve.engine import Engine
from workbench.serve.launching import generate, launch
from workbench.serve.reference import decode

__all__ = ["Engine", "capabilities", "decode", "generate", "launch"]
