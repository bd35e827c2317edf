"""``vllm serve --omni`` as a child runs it: ``python -m workbench.serve.server_main serve ...``.

The server's module of audio imports torchaudio whatever it serves
(vllm_omni/entrypoints/openai/audio_utils_mixin.py:28), and requirements/overrides.txt leaves it
out. So a stand-in takes its place where it is not installed; nothing about pictures calls it.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

LEFT_OUT = ("torchaudio", "torchaudio.functional")


def stand_in(name: str) -> ModuleType:
    """A module that can be imported from, and whose functions say that they are not there."""
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    module.__path__ = []

    def missing(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)

        def refuse(*arguments: Any, **options: Any) -> None:
            raise RuntimeError(f"{name}.{attribute} needs torchaudio, which is not installed here")

        return refuse

    module.__getattr__ = missing
    return module


def main() -> None:
    """Run the command line of vLLM-Omni on the arguments of this process."""
    if find_spec(LEFT_OUT[0]) is None:
        sys.modules.update({name: stand_in(name) for name in LEFT_OUT})
    from vllm_omni.entrypoints.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
