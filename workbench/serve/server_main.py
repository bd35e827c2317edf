"""``vllm serve --omni`` as a child runs it: ``python -m workbench.serve.server_main serve ...``.

The server's module of audio imports torchaudio whatever it serves
(vllm_omni/entrypoints/openai/audio_utils_mixin.py:28), and requirements/overrides.txt leaves it
out. So a stand-in takes its place where it is not installed; nothing about pictures calls it.

What it answers to ``return_stage_metrics`` leaves out the diffusion stage's own times
(vllm_omni/metrics/stats.py:557), the wait in its scheduler among them; here they are put in.
"""

from __future__ import annotations

import sys
from functools import wraps
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from workbench.serve.server_requests import DIFFUSION

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


def with_diffusion_metrics() -> None:
    """From now on the metrics of each stage hold ``diffusion_metrics``, as it counted them."""
    from vllm_omni.metrics.stats import OrchestratorAggregator

    merge = OrchestratorAggregator._merge_stage_metric_event

    @wraps(merge)
    def whole(current: dict[str, Any] | None, event: Any) -> dict[str, Any]:
        merged = merge(current, event)
        if event.diffusion_metrics:
            merged[DIFFUSION] = event.diffusion_metrics
        return merged

    OrchestratorAggregator._merge_stage_metric_event = staticmethod(whole)


def main() -> None:
    """Run the command line of vLLM-Omni on the arguments of this process."""
    if find_spec(LEFT_OUT[0]) is None:
        sys.modules.update({name: stand_in(name) for name in LEFT_OUT})
    with_diffusion_metrics()
    from vllm_omni.entrypoints.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
