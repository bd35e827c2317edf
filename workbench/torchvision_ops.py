"""Lets a CUDA-built torchvision import beside a CPU-only torch.

torchvision registers fake implementations for two compiled operators at import. Its compiled
library does not load without CUDA, so the operators are unknown and the import fails; declaring
their schemas first is enough. vLLM calls :func:`define_missing` in every process, workers
included, before anything imports torchvision (entry point group ``vllm.platform_plugins``).
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


@cache
def define_missing() -> None:
    """Declare torchvision's compiled operators where its library cannot load; else do nothing.

    Returns None, which tells vLLM that no platform is provided.
    """
    import torch

    if torch.version.cuda is not None or not _built_for_cuda():
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in SCHEMAS:
        library.define(schema)
    _kept_alive.append(library)  # a Library that is collected takes its operators along


def _built_for_cuda() -> bool:
    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        return False
    return "+cu" in (Path(spec.origin).parent / "version.py").read_text()


_kept_alive: list[Any] = []
