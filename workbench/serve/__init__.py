"""launch -> engine -> pictures."""

from workbench.serve.capabilities import capabilities
from workbench.serve.decoding import decode
from workbench.serve.engine import Engine
from workbench.serve.launching import follow, generate, launch

__all__ = ["Engine", "capabilities", "decode", "follow", "generate", "launch"]
