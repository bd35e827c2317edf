"""What runs inside each worker: records trajectories, reads the loaded modules, counts memory.

vLLM-Omni mixes :class:`WorkerTools` into its worker (``worker_extension_cls``); the engine calls
the methods through ``collective_rpc`` and gets the answer of rank 0.
"""

from __future__ import annotations

from typing import Any

import torch
from safetensors.torch import load_file
from vllm.distributed import get_tensor_model_parallel_world_size
from vllm_omni.diffusion.distributed import parallel_state
from vllm_omni.platforms import current_omni_platform

from workbench.serve import modules
from workbench.serve.kernel_times import KernelTimes
from workbench.serve.layer_outputs import LayerRecorder, output_errors
from workbench.serve.meter import Meter
from workbench.serve.peaks import RequestPeaks, load_peak
from workbench.serve.readback import read_back
from workbench.serve.recorder import Recorder, RowCounter


class WorkerTools:
    """Mixed into the worker; every rank runs these, rank 0 answers."""

    model_runner: Any
    _workbench_meter: Meter | None = None
    _workbench_peaks: RequestPeaks | None = None

    def workbench_start(
        self, record: bool = True, count_rows: bool = False, along: str = ""
    ) -> None:
        """Before a request: a new peak, a new trajectory, and new row counts if asked for.

        Args:
            record: Keep the trajectory.
            count_rows: Count the inputs of each linear.
            along: File of the trajectory that the request is led along; see :class:`Recorder`.
        """
        pipeline = self.model_runner.pipeline
        if not hasattr(self, "_workbench_recorder"):
            self._workbench_recorder = Recorder(pipeline)
        if record:
            self._workbench_recorder.start(load_file(along)["latents"] if along else None)
        self._workbench_counter = RowCounter(modules.linears(pipeline)) if count_rows else None
        self.workbench_reset_peak()

    def workbench_finish(self) -> dict[str, Any]:
        """After a request: the trajectory, the rows that each linear multiplied, if counted.

        And the peak memory of all ranks together in bytes.
        """
        counter = self._workbench_counter
        return {
            "trajectory": self._workbench_recorder.finish(),
            "rows": counter.finish() if counter is not None else None,
            **self.workbench_peak(),
        }

    def workbench_release(self) -> None:
        """Before requests: give back what the allocator keeps of earlier ones, and of the load."""
        current_omni_platform.empty_cache()

    def workbench_reset_peak(self) -> None:
        """Before a request: a new peak."""
        current_omni_platform.reset_peak_memory_stats()
        self._workbench_resident = current_omni_platform.memory_allocated()

    def workbench_peak(self) -> dict[str, int]:
        """After a request: ``peak_memory_bytes`` of all ranks together."""
        return {"peak_memory_bytes": sum(_gather(self._peak_memory()))}

    def workbench_meter(self, stages: bool = False) -> None:
        """Before a load: count passes and keep peaks; ``stages`` times each component as well."""
        pipeline = self.model_runner.pipeline
        for unread in (self._workbench_meter, self._workbench_peaks):
            if unread is not None:  # a load before failed
                unread.finish()
        self._workbench_meter = Meter(
            pipeline, current_omni_platform.synchronize if stages else None
        )
        self.workbench_release()
        self.workbench_reset_peak()
        self._workbench_peaks = RequestPeaks()

    def workbench_read_meter(self) -> dict[str, Any]:
        """After a load: ``batches``, ``stages_s`` of rank 0, ``memory`` of every rank."""
        peaks = self._workbench_peaks.finish()
        cuda = current_omni_platform.is_cuda()
        own = {
            "weights": modules.weight_bytes(self.model_runner.pipeline),
            "load_peak": load_peak(),
            "allocated_peak": peaks["allocated"] if cuda else None,
            "reserved_peak": peaks["reserved"] if cuda else self._risen(peaks["allocated"]),
        }
        return {**self._workbench_meter.finish(), "memory": _gather(own)}

    def workbench_watch_kernels(self) -> None:
        """Before a request: watch every kernel."""
        self._workbench_kernels = KernelTimes(cuda=current_omni_platform.is_cuda())

    def workbench_kernel_times(self) -> dict[str, Any]:
        """After a request: the kernels of rank 0."""
        return self._workbench_kernels.finish()

    def workbench_watch_layers(self, rows: int, steps: list[int]) -> None:
        """After a start: keep inputs and outputs of every linear at these steps."""
        self._workbench_layers = LayerRecorder(
            modules.linears(self.model_runner.pipeline), self._workbench_recorder, rows, steps
        )

    def workbench_save_layers(self, file: str) -> list[str]:
        """Write what the linears were given and gave back; their names."""
        return self._workbench_layers.save(file)

    def workbench_layer_errors(self, file: str) -> dict[str, Any]:
        """Each linear here at recorded inputs, against recorded outputs."""
        loaded = dict(modules.linears(self.model_runner.pipeline))
        return {"rows": output_errors(loaded, file), "linears": sorted(loaded)}

    def workbench_census(self) -> dict[str, Any]:
        """Plain facts about the loaded pipeline on this rank, for :mod:`workbench.serve.audit`."""
        pipeline = self.model_runner.pipeline
        return {
            "linears": [
                {"name": name, **modules.facts(module)}
                for name, module in modules.linears(pipeline)
            ],
            "attention_backend": _attention_backend(pipeline),
            "weight_bytes": modules.weight_bytes(pipeline),
            "world_sizes": _world_sizes(),
            "platform": current_omni_platform.device_type,
            "device": current_omni_platform.get_device_name(),
        }

    def workbench_read_back(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Weights as the loaded layers multiply them, against files; see :mod:`.readback`."""
        loaded = dict(modules.linears(self.model_runner.pipeline))
        return {"answers": [read_back(loaded[one["name"]], one) for one in samples]}

    def _peak_memory(self) -> int:
        if current_omni_platform.is_cuda():
            return current_omni_platform.max_memory_reserved()
        return self._risen(current_omni_platform.max_memory_allocated())

    def _risen(self, peak: int) -> int:
        # No allocator keeps books on CPU: the weights, and how far a request rose above rest.
        weights = sum(modules.weight_bytes(self.model_runner.pipeline).values())
        return weights + max(0, peak - self._workbench_resident)


def _gather(value: Any) -> list[Any]:
    group = parallel_state.get_world_group()
    if group.world_size == 1:
        return [value]
    values: list[Any] = [None] * group.world_size
    torch.distributed.all_gather_object(values, value, group=group.cpu_group)
    return values


def _attention_backend(pipeline: torch.nn.Module) -> str:
    names = {
        module.attn_backend.get_name()
        for module in pipeline.modules()
        if getattr(module, "attn_backend", None) is not None
    }
    return "+".join(sorted(names)) or "none"


def _world_sizes() -> dict[str, int]:
    return {
        "world": parallel_state.get_world_group().world_size,
        "tensor_parallel": get_tensor_model_parallel_world_size(),
        "cfg_parallel": parallel_state.get_classifier_free_guidance_world_size(),
        "ulysses": parallel_state.get_ulysses_parallel_world_size(),
        "ring": parallel_state.get_ring_parallel_world_size(),
    }
