"""One picture or video over HTTP: what is sent, and what an answer holds.

Paths are those of vllm_omni 0.30.0, under ``entrypoints/openai``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any

import httpx

from workbench.errors import LaunchFailed, NotSupportedHere, SpecError
from workbench.provenance import gpus
from workbench.serve.drawing import seconds
from workbench.serve.in_flight import SCHEDULER_WAIT
from workbench.specs import Route, Sampling
from workbench.videos import Video, decode

if TYPE_CHECKING:
    from PIL import Image

ROUTES: dict[Route, str] = {
    "images": "/v1/images/generations",
    "chat": "/v1/chat/completions",
    "videos": "/v1/videos/sync",
}
MOST_STEPS, MOST_GUIDANCE = 200, 20.0  # protocol/images.py:137-153, protocol/videos.py:223-254
DIFFUSION = "diffusion_metrics"
"""Of a stage's metrics in an answer: seconds by name."""
LEAST_FPS = 1.0  # protocol/videos.py:173
_FPS_ROUNDING = 0.01
_SHOWN = 500  # characters of a refusal


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a server answered to one request."""

    pictures: tuple[bytes, ...]
    """PNG files, or one MP4 file."""
    stage_durations_s: dict[str, float]
    """The engine's own split of the time."""
    queue_wait_s: float | None = None
    """Until the diffusion stage scheduled it; None where the route does not say."""

    video: bool = False
    """Whether it is an MP4 file, which is lossy."""

    @cached_property
    def decoded(self) -> Video | None:
        """The video, frame by frame; None for pictures.

        Raises:
            LaunchFailed: it is no video that can be read.
        """
        try:
            return decode(self.pictures[0]) if self.video else None
        except SpecError as error:
            raise LaunchFailed(f"the server sent no video: {error}") from error

    @property
    def frames(self) -> list[Image.Image]:
        """The first picture, or all frames of the video.

        Raises:
            LaunchFailed: it cannot be read.
        """
        return self.decoded.frames if self.decoded else [opened(self.pictures[0])]


def opened(png: bytes) -> Image.Image:
    """The picture of a PNG file, RGB.

    Raises:
        LaunchFailed: it is none, or torn off.
    """
    from PIL import Image

    try:
        return Image.open(BytesIO(png)).convert("RGB")
    except (OSError, SyntaxError) as error:  # Pillow raises SyntaxError where a chunk is broken
        raise LaunchFailed(f"the server sent {len(png)} bytes of no picture: {error}") from error


def check_known(route: Route) -> None:
    """Refuse a route that is none.

    Raises:
        SpecError: names those that there are.
    """
    if route not in tuple(ROUTES):  # what is not hashable too
        raise SpecError(f"route={route!r} is none; there are {', '.join(ROUTES)}")


def check_route(route: Route, sampling: Sampling) -> None:
    """Refuse what a route would refuse, or would silently draw otherwise.

    Raises:
        SpecError: an unknown route, or one of another kind of model; more steps or guidance than
            it takes.
        NotSupportedHere: the chat route on a GPU.
    """
    check_known(route)
    if (route == "videos") != (sampling.num_frames is not None):
        drawn = "images" if sampling.num_frames is None else "videos"
        raise SpecError(
            f"route={route!r} with num_frames={sampling.num_frames}: this model draws {drawn}; "
            f"use route={drawn!r}"
        )
    if sampling.fps is not None and sampling.fps < LEAST_FPS:
        raise SpecError(f"fps={sampling.fps}: a server takes {LEAST_FPS:g} or more")
    if sampling.num_inference_steps > MOST_STEPS:
        raise SpecError(
            f"num_inference_steps={sampling.num_inference_steps}: a server takes up to {MOST_STEPS}"
        )
    for name in ("guidance_scale", "guidance_scale_2", "true_cfg_scale"):
        if (getattr(sampling, name) or 0) > MOST_GUIDANCE:
            raise SpecError(
                f"{name}={getattr(sampling, name)}: a server takes up to {MOST_GUIDANCE:g}"
            )
    # It reads no generator_device (serving_chat.py:3722-3747), so the device would draw the noise.
    if route == "chat" and gpus():
        raise NotSupportedHere(
            "route='chat' draws the initial noise on the GPU, and no other set would begin with "
            "the same; use route='images'"
        )


def posted(
    route: Route, prompt: str, seed: int, sampling: Sampling, image: bytes | None = None
) -> dict[str, Any]:
    """The body of a request, as arguments of ``httpx.Client.post``.

    Args:
        route: Videos are asked for by a form of many parts, the others by JSON.
        prompt: What is drawn.
        seed: Of the noise.
        sampling: The model's defaults filled in.
        image: First frame of a video, a PNG file.
    """
    if route != "videos":
        return {"json": payload(route, prompt, seed, sampling)}
    fields = {"prompt": prompt, "seed": seed, **sampling.model_dump(exclude_none=True)}
    parts: dict[str, Any] = {name: (None, str(value)) for name, value in fields.items()}
    if image is not None:
        parts["input_reference"] = ("image.png", image, "image/png")
    return {"files": parts}


def payload(route: Route, prompt: str, seed: int, sampling: Sampling) -> dict[str, Any]:
    """The JSON of a request for one lossless picture; noise comes from the CPU, as in-process."""
    fields: dict[str, Any] = sampling.model_dump(
        exclude_none=True, exclude={"height", "width", "num_frames", "fps"}
    )
    if sampling.width is not None and sampling.height is not None:
        fields["size"] = f"{sampling.width}x{sampling.height}"
    if route == "chat":
        return {"messages": [{"role": "user", "content": prompt}], "seed": seed, **fields}
    return {
        "prompt": prompt,
        "seed": seed,
        "generator_device": "cpu",
        "n": 1,
        "response_format": "b64_json",
        "output_format": "png",
        "return_stage_metrics": True,
        **fields,
    }


def answer(route: Route, response: httpx.Response) -> Answer:
    """What came back.

    Raises:
        LaunchFailed: no picture; with what the server says instead.
    """
    if response.status_code != httpx.codes.OK:
        raise LaunchFailed(f"HTTP {response.status_code}: {response.text[:_SHOWN]}")
    if route == "videos":
        took = json.loads(response.headers.get("X-Stage-Durations", "{}"))
        return Answer(pictures=(response.content,), stage_durations_s=seconds(took), video=True)
    body = response.json()
    return _from_images(body) if route == "images" else _from_chat(body)


def check_video(video: Video | None, sampling: Sampling) -> None:
    """Refuse a video that is not what was asked for; None, of pictures, is not looked at.

    Raises:
        LaunchFailed: another number or size of frames, or other frames a second.
    """
    if video is None:
        return
    asked = (sampling.num_frames, (sampling.width, sampling.height), sampling.fps)
    fps = round(video.fps, 3)
    got = (len(video.frames), video.frames[0].size if video.frames else None, fps)
    if got[:2] != asked[:2] or (asked[2] is not None and abs(fps - asked[2]) > _FPS_ROUNDING):
        raise LaunchFailed(
            f"the server sent {got[0]} frames of {got[1]} at {got[2]} a second, and "
            f"{asked[0]} of {asked[1]} at {asked[2]} were asked for"
        )


def _from_images(body: Mapping[str, Any]) -> Answer:
    metrics = body.get("metrics") or {}
    return Answer(
        pictures=tuple(base64.b64decode(one["b64_json"]) for one in body["data"]),
        stage_durations_s=seconds(metrics.get("stage_durations")),
        queue_wait_s=_queue_wait_s(metrics.get("stage_metrics") or {}),
    )


def _queue_wait_s(stages: Mapping[str, Mapping[str, Any]]) -> float | None:
    waits = [(stage.get(DIFFUSION) or {}).get(SCHEDULER_WAIT) for stage in stages.values()]
    return next((wait for wait in waits if wait is not None), None)


def _from_chat(body: Mapping[str, Any]) -> Answer:
    content = body["choices"][0]["message"]["content"]
    if not isinstance(content, list):
        raise LaunchFailed(f"the chat route answered without a picture: {str(content)[:_SHOWN]}")
    urls = [part["image_url"]["url"] for part in content]
    return Answer(
        pictures=tuple(base64.b64decode(url.partition(",")[2]) for url in urls),
        stage_durations_s=seconds(content[0].get("stage_durations")),
    )
