"""Where the time of one request goes, kernel by kernel; runs inside the workers.

torch.profiler sees every CUDA kernel, and on CPU every operator's own time.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

KINDS = (
    # inductor names a fused kernel after all that is in it, down to the views
    ("norm", r"^triton_(red|per)_.*(norm|rsqrt)"),
    ("quantize", r"^triton_.*(abs_.*max|clamp_.*reciprocal)"),
    ("elementwise", r"^triton_poi_"),
    ("communication", r"nccl|all_?reduce|all_?gather|all_?to_?all|broadcast|cross_device_reduce"),
    ("attention", r"flash|fmha|attention|sdpa|softmax"),
    ("quantize", r"quant|per_token|absmax|amax"),
    ("convolution", r"conv|implicit_gemm|winograd"),
    (
        "GEMM",
        r"gemm|cutlass|nvjet|xmma|cublas|machete|marlin|mm\b|_tem_|linear|matmul|onednn",
    ),
    ("copy", r"memcpy|memset|copy|\bcat|transpose|permute|contiguous"),
    ("norm", r"norm(?!al)|rowwisemoments"),
    ("elementwise", r"elementwise|vectorized|triton_|add|mul|gelu|silu|sigmoid|pow|rsqrt|div"),
)
"""Kind -> what the name of its kernels holds; the first that fits."""


def kind_of(kernel: str) -> str:
    """Which kind of work a kernel does, by its name; ``other`` if none is known."""
    name = kernel.lower()
    return next((kind for kind, pattern in KINDS if re.search(pattern, name)), "other")


class KernelTimes:
    """Watches from its making until :meth:`finish`; slows what it watches down by a little.

    The profiler wants to be started and stopped by one thread, and the engine calls from several.
    """

    def __init__(self, *, cuda: bool) -> None:
        self._cuda = cuda
        self._profile = profile(
            activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU],
            experimental_config=_ExperimentalConfig(profile_all_threads=True),
        )
        self._thread = ThreadPoolExecutor(1)
        self._thread.submit(self._profile.start).result()
        self._began = time.perf_counter()

    def finish(self) -> dict[str, Any]:
        """``rows`` (kernel, kind, calls, seconds), ``wall_s``, and ``busy_s``, when any one ran."""
        if self._cuda:
            torch.cuda.synchronize()
        wall_s = time.perf_counter() - self._began
        with self._thread as thread:
            thread.submit(self._profile.stop).result()
        spans = list(self._kernels() if self._cuda else self._operators())
        seconds: dict[str, float] = defaultdict(float)
        calls: dict[str, int] = defaultdict(int)
        for name, number, _, taken in spans:
            calls[name] += number
            seconds[name] += taken
        rows = [
            {"kernel": name, "kind": kind_of(name), "calls": calls[name], "seconds": taken}
            for name, taken in sorted(seconds.items(), key=lambda item: -item[1])
        ]
        busy = _covered((start, start + taken) for _, _, start, taken in spans)
        return {
            "rows": rows,
            "wall_s": wall_s,
            "busy_s": busy if self._cuda else sum(seconds.values()),
        }

    def _kernels(self) -> Any:
        for event in self._profile.events():
            if event.device_type == DeviceType.CUDA:
                taken = event.time_range.elapsed_us() / 1e6
                yield event.name, 1, event.time_range.start / 1e6, taken

    def _operators(self) -> Any:
        for event in self._profile.key_averages():
            yield event.key, event.count, 0.0, event.self_cpu_time_total / 1e6


def _covered(spans: Any) -> float:
    """Length of the union of intervals."""
    total, end = 0.0, float("-inf")
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total
