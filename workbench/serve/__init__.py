"""launch -> engine -> pictures, in this process; and ``serve``: the same model as a server.

This package can be called: ``workbench.serve(model, ...)`` is
:func:`workbench.serve.server.serve`, and starts ``vllm serve --omni``:

>>> with workbench.serve("embedded:qwen-image") as server:
...     pictures = server.generate("a teapot", seeds=range(4))
"""

import inspect
import sys
from types import ModuleType

from workbench.serve import server
from workbench.serve.capabilities import capabilities
from workbench.serve.decoding import decode
from workbench.serve.engine import Engine
from workbench.serve.launching import follow, generate, launch
from workbench.serve.server import Server

__all__ = ["Engine", "Server", "capabilities", "decode", "follow", "generate", "launch"]


class _Callable(ModuleType):
    """A package that is also the function of its name, whatever was imported before."""

    __call__ = staticmethod(server.serve)


# The language reference allows this for modules. A function under this name would hide the package
# or be hidden by it, whichever of them is imported last.
sys.modules[__name__].__class__ = _Callable
__signature__ = inspect.signature(server.serve)
