"""A launched model: its audit, and the pictures it draws."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from workbench import store
from workbench.errors import LaunchFailed, SpecError
from workbench.followed import LAYERS, VELOCITIES, Followed, LayerRecording
from workbench.records import GenerationSet
from workbench.serve import in_flight, omni
from workbench.serve.drawing import Drawn, populate, seconds, trajectory_of
from workbench.serve.following import (
    error_table,
    follow,
    follow_spec,
    layers_spec,
    record_layers,
)
from workbench.serve.media import frames_of
from workbench.serve.requests import Asked, asked_for, asked_load
from workbench.serve.session import Session
from workbench.specs import PromptSet, Sampling, Workload
from workbench.speed import LoadResult

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from PIL import Image


class Engine(Session):
    """vLLM-Omni with one model at one precision and layout. Made by :func:`workbench.launch`.

    Use it in a ``with`` statement: closing it frees the model.
    """

    def generate(
        self,
        prompts: PromptSet | Iterable[str] | str,
        *,
        seeds: Iterable[int] = (0,),
        sampling: Sampling | None = None,
        images: Any = None,
        repeat: int = 0,
        force: bool = False,
    ) -> GenerationSet:
        """Draw every prompt at every seed; finished pictures are kept, missing ones are drawn.

        Args:
            prompts: A PromptSet, a list of prompts, or one prompt.
            seeds: Distinct integers, 0 to 2**63 - 1; the initial noise is drawn on the CPU.
            sampling: Steps, size, guidance, frames; unset fields take the model's defaults. A
                number of frames that is not 4k+1 becomes the one that is drawn, with a warning.
            images: The first frame of a video, where the model takes one: one for all prompts or
                one for each; a path, a Pillow image, uint8 [height, width, 3], or a Generation,
                whose first frame counts. One of the same aspect ratio is scaled, with a warning.
            repeat: Counts independent runs of the same request.
            force: Draw all of them again.

        Raises:
            SpecError: a contradictory request, before anything runs.
            StoreError: the run folder cannot be written, or is full; finished pictures stay.
            LaunchFailed: the engine died; the same call goes on where it stopped.
        """
        asked = asked_for(
            self.spec,
            self.folder,
            prompts,
            seeds=seeds,
            sampling=sampling,
            repeat=repeat,
            images=images,
        )
        return self.populate(asked, force=force)

    def populate(self, asked: Asked, *, force: bool = False) -> GenerationSet:
        """Every prompt at every seed of a request that is checked already."""
        draw = partial(self._draw, asked.spec.sampling)
        return populate(asked, draw, self, force=force)

    def load(self, workload: Workload, *, images: Any = None) -> LoadResult:
        """Keep a number of requests in flight until all are answered; nothing is stored.

        How many of them the engine draws together is ``max_num_seqs`` of the launch.

        Args:
            workload: Prompts, seeds, sampling, concurrency, number of requests.
            images: First frames of videos, as :meth:`generate` takes them.

        Returns:
            Every request with its times, and throughput and latencies over them.

        Raises:
            SpecError: a contradictory workload or images, before anything is sent.
            LaunchFailed: the engine died, or refused a request.
        """
        asked = asked_load(self.spec, self.folder, workload, images)
        with self._running(f"with {workload.concurrency} requests in flight") as engine:
            result = in_flight.run(engine, asked, self.spec.precision)
            self.drawn.add(asked.workload.sampling)
        return result

    def follow(
        self, reference: GenerationSet, *, pairs: int | None = None, repeat: int = 0
    ) -> Followed:
        """Predict along a set's trajectories: each step begins at its latents, not at our own.

        The velocity that the model predicts at each of them is kept, so that its error is seen
        without what earlier errors led to (teacher forcing).

        Args:
            reference: Whose latents; the same model and sampling.
            pairs: The first this many generations of it; None follows all.
            repeat: Counts independent runs of the same request.

        Raises:
            SpecError: a set that this model cannot follow.
            LaunchFailed: the engine died; the same call goes on where it stopped.
        """
        spec = follow_spec(self.spec, reference, pairs, repeat)
        if store.has(VELOCITIES, spec):
            return Followed.load(store.open_complete(VELOCITIES, spec))
        return follow(spec, reference, self._recorded, self.audit)

    def record_layers(
        self,
        reference: GenerationSet,
        index: int = 0,
        *,
        rows: int = 16,
        steps: Iterable[int] | None = None,
    ) -> LayerRecording:
        """Keep what every linear is given and gives back along one trajectory.

        Args:
            reference: Usually this model's own set.
            index: Which of its generations.
            rows: Inputs kept of each linear and step, besides the one with the largest entry.
            steps: Steps kept, from 1; None takes six spread over the run.

        Raises:
            SpecError: steps that the run does not take, or more than one worker.
        """
        self._refuse_shards()
        spec = layers_spec(self.spec, reference, index, rows=rows, steps=steps)
        if store.has(LAYERS, spec):
            return LayerRecording.load(store.open_complete(LAYERS, spec))

        def watched(*request: Any) -> dict[str, Any]:
            return self._recorded(*request, watch=(rows, list(spec.steps)))

        def save(file: str) -> list[str]:
            return self.call_workers("workbench_save_layers", file)

        return record_layers(spec, reference[index], watched, save)

    def layer_errors(self, recording: LayerRecording) -> pd.DataFrame:
        """Where error enters: each linear here at the recorded inputs, against recorded outputs.

        Args:
            recording: Made by :meth:`record_layers` of the reference's engine.

        Returns:
            One row a linear and step, in the order of the network: component, name, scheme (that it
            runs in), quantized, step, timestep, relative_l2 (of its output; what came in is exact,
            so nothing accumulates). ``attrs["missing"]`` names linears that are not loaded here.

        Raises:
            SpecError: more than one worker.
        """
        self._refuse_shards()
        answer = self.call_workers("workbench_layer_errors", str(recording.file))
        return error_table(recording, answer, self.audit)

    def kernel_times(
        self, prompt: str, *, seed: int = 0, sampling: Sampling | None = None, image: Any = None
    ) -> pd.DataFrame:
        """Where the time of one request goes; draw something at this sampling first, to warm up.

        Args:
            prompt: What is drawn.
            seed: Of the initial noise.
            sampling: Few steps are enough, since one is like the next.
            image: The first frame, as :meth:`generate` takes it.

        Returns:
            One row a kernel (on CPU an operator), the longest first: kernel, kind (``GEMM``,
            ``attention``, ``copy``, ...), calls, seconds, share (of the wall time). ``attrs`` holds
            ``wall_s`` and ``idle``, the share in which none ran: launch gaps, and the host.

        Raises:
            SpecError: a contradictory request, or several prompts, before anything runs.
            LaunchFailed: the engine died, or the profiler saw nothing.
        """
        import pandas as pd

        if not isinstance(prompt, str):
            raise SpecError(f"prompt={prompt!r}: kernels are timed of one prompt; give a string")
        request, images = asked_for(
            self.spec, self.folder, prompt, seeds=(seed,), sampling=sampling, images=image
        )
        first = images[prompt].picture if images else None
        with self._running("while its kernels were watched") as engine:
            omni.call(engine, "workbench_watch_kernels")
            omni.request(engine, prompt, seed, request.sampling, first)
            seen = omni.call(engine, "workbench_kernel_times")
            self.drawn.add(request.sampling)
            if not seen["rows"]:
                raise LaunchFailed("torch.profiler saw no kernel; end what else is profiling here")
        table = pd.DataFrame(seen["rows"], columns=["kernel", "kind", "calls", "seconds"])
        table["share"] = table["seconds"] / seen["wall_s"]
        idle = max(0.0, 1 - seen["busy_s"] / seen["wall_s"])
        table.attrs.update(wall_s=seen["wall_s"], idle=idle)
        return table

    def _refuse_shards(self) -> None:
        if self.spec.parallelism.world_size > 1:
            raise SpecError(
                f"{self.spec.parallelism!r} gives each worker a part of a layer; "
                "launch with one device to look at single layers"
            )

    def _recorded(
        self,
        prompt: str,
        seed: int,
        sampling: Sampling,
        along: Path,
        image: Image.Image | None,
        *,
        watch: tuple[int, list[int]] | None = None,
    ) -> dict[str, Any]:
        _, trace, _ = self._request(prompt, seed, sampling, image, along=str(along), watch=watch)
        return trace["trajectory"]

    def _draw(self, sampling: Sampling, prompt: str, seed: int, image: Image.Image | None) -> Drawn:
        output, trace, elapsed_s = self._request(prompt, seed, sampling, image)
        return Drawn(
            frames=frames_of(output.images[0]),
            trajectory=trajectory_of(trace["trajectory"], self.family.name),
            elapsed_s=elapsed_s,
            stage_durations_s=seconds(output.stage_durations),
            peak_memory_bytes=trace["peak_memory_bytes"] - self._held_before,
        )
