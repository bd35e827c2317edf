"""The server form: ``vllm serve --omni`` as a child on the loopback address, asked over HTTP."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from workbench.errors import LaunchFailed
from workbench.pixels import png
from workbench.records import Checkpoint, GenerationSet
from workbench.serve import load
from workbench.serve.drawing import Drawn, populate
from workbench.serve.requests import asked_for, asked_load, launch_spec, refuse_runtime
from workbench.serve.server_process import START_TIMEOUT_S
from workbench.serve.server_requests import (
    ROUTES,
    Answer,
    answer,
    check_known,
    check_route,
    check_video,
    posted,
)
from workbench.serve.server_session import ServerSession
from workbench.specs import ModelRef, PromptSet, Route, Sampling, Workload
from workbench.speed import LoadResult

if TYPE_CHECKING:
    from PIL import Image


class Server(ServerSession):
    """``vllm serve --omni`` with one model at one precision. Made by :func:`workbench.serve`.

    Use it in a ``with`` statement: closing it ends the server and all its workers. They end too
    when this process dies, of whatever. The audit is read from the server's own workers.
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
        route: Route | None = None,
    ) -> GenerationSet:
        """Draw every prompt at every seed, one after the other, as :meth:`Engine.generate` does.

        Arguments and errors are those of that method, and ``route``, the way it is asked:
        ``"images"`` is ``/v1/images/generations``, ``"chat"`` ``/v1/chat/completions`` (on CPU
        only), ``"videos"`` ``/v1/videos/sync``; None takes the first or the last, by the model.

        A server hands out no latents: the pictures can be looked at and scored, and asking for the
        trajectory of one, as :func:`workbench.compare` does, raises StoreError. Videos come as MP4,
        which is lossy: frames are stored as decoded, with ``codec`` set, beside the file. The loss
        is as large as that of low precision (docs/architecture.md), and scores hold both.

        Raises:
            NotSupportedHere: the chat route on a GPU, where noise would come from another source.
            LaunchFailed: the server died, with its exit code; the same call to a fresh server goes
                on where it stopped.
        """
        by = self._route if route is None else route
        check_known(by)
        asked = asked_for(
            self.spec,
            self.folder,
            prompts,
            seeds=seeds,
            sampling=sampling,
            repeat=repeat,
            images=images,
            route=by,
        )
        check_route(by, asked.spec.sampling)
        draw = partial(self._draw, asked.spec.sampling, by)
        return populate(asked, draw, self, force=force, command=shlex.join(self.command))

    def load(self, workload: Workload, *, images: Any = None) -> LoadResult:
        """Keep a number of requests in flight until all are answered; nothing is stored.

        Args:
            workload: Prompts, seeds, sampling, concurrency, number of requests, and the route.
            images: First frames of videos, as :meth:`Engine.generate` takes them.

        Returns:
            Every request with its times, and throughput and latencies over those that completed.
            A request that fails is in the rows with its error, and the others go on. The routes of
            chats and videos do not say how long one waited.

        Raises:
            SpecError: a contradictory workload or images, before anything is sent.
            NotSupportedHere: the chat route on a GPU.
        """
        asked = asked_load(self.spec, self.folder, workload, images)
        sampling, route = asked.workload.sampling, workload.route or self._route
        check_route(route, sampling)
        files = {prompt: png(image.picture) for prompt, image in asked.images.items()}

        def ask(prompt: str, seed: int) -> tuple[Answer, int]:
            body = posted(route, prompt, seed, sampling, files.get(prompt))
            response = self._post(ROUTES[route], **body)
            return answer(route, response), response.num_bytes_downloaded

        def check(got: Answer) -> None:
            check_video(got.decoded, sampling)

        result = load.run(asked.workload, ask, self.spec.precision, check)
        self.drawn.add(sampling)
        return result

    @property
    def _route(self) -> Route:
        return "videos" if self.family.draws_videos else "images"

    def _draw(
        self, sampling: Sampling, route: Route, prompt: str, seed: int, image: Image.Image | None
    ) -> Drawn:
        try:
            self.call_workers("workbench_reset_peak")
            body = posted(route, prompt, seed, sampling, png(image) if image else None)
            began = time.perf_counter()
            response = self._post(ROUTES[route], **body)
            elapsed_s = time.perf_counter() - began
            got = answer(route, response)
            check_video(video := got.decoded, sampling)
            peak = self.call_workers("workbench_peak")
        except LaunchFailed as error:
            raise LaunchFailed(
                f"{self.spec.precision} failed on {prompt!r} with seed {seed}; what was finished "
                f"is kept: {error}"
            ) from error
        return Drawn(
            frames=got.frames,
            trajectory=None,
            elapsed_s=elapsed_s,
            stage_durations_s=got.stage_durations_s,
            encoded=got.pictures[0] if video else None,
            codec=video.codec if video else None,
            **peak,
        )


def serve(
    model: ModelRef | Checkpoint | str,
    *,
    port: int | None = None,
    start_timeout_s: float = START_TIMEOUT_S,
    extra_flags: Sequence[str] = (),
    **options: Any,
) -> Server:
    """Start ``vllm serve --omni`` with a model or a checkpoint; use it in a ``with`` statement.

    Anyone on the machine reaches the loopback address, so it answers to its token alone; state
    (``/health``, ``/version``, ``/metrics``, ``/v1/models``) is open. A client of yours sends
    ``Authorization: Bearer TOKEN``, as OpenAI's does:

    >>> client = openai.OpenAI(base_url=f"{server.url}/v1", api_key=server.token)
    >>> client.images.generate(prompt="a teapot", size="1024x1024")

    Whoever has the token can do what you can: requests may name files, and one kind of them runs
    as code (:mod:`workbench.serve.server_door`).

    Args:
        model: A ModelRef or its source as a string, or a Checkpoint of :func:`workbench.quantize`.
        port: Of 127.0.0.1, which is all that it listens on; None takes a free one.
        start_timeout_s: How long it may take until it answers, in seconds, a day at most.
        extra_flags: More of the command line, such as ``("--vae-use-tiling",)``. They are part of
            what is asked for, and of the key of what is drawn.
        **options: Fields of LaunchSpec, as :func:`workbench.launch` takes them.

    Raises:
        SpecError: unknown or contradictory options or flags, a port that is none or is taken, or
            an impossible time-out; before anything starts.
        ModelNotFound: the model leads to no pipeline.
        NotSupportedHere: a valid request that needs another machine.
        PrecisionNotApplied: the loaded modules do not run at the precision asked for.
        LaunchFailed: the server ended or took too long; with the end of its log.
    """
    options = {"runtime": "vllm-omni-server", **options, "extra_flags": extra_flags}
    spec, folder = launch_spec(model, **options)
    refuse_runtime(spec, "vllm-omni-server")
    return Server(spec, folder, port=port, start_timeout_s=start_timeout_s)
