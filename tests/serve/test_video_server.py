"""``/v1/videos/sync`` of the real server: the engine's own frames, less what H.264 loses."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from clips import PROMPT, STEPS, frame

import workbench as wb
from workbench.errors import SpecError, StoreError
from workbench.records import GenerationSet
from workbench.serve.server import Server
from workbench.videos import decode

pytestmark = pytest.mark.slow
ENCODER = {"crf": "18", "video_codec_options": {"preset": "ultrafast", "threads": "0"}}
"""The server's own settings: openai/serving_video.py:533 and diffusion/utils/media_utils.py:365."""


@pytest.fixture(scope="module")
def server(tiny_ti2v: Path, shared_runs: Path) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(shared_runs))
        with wb.serve(str(tiny_ti2v)) as started:
            yield started


@pytest.fixture(scope="module")
def sets(server: Server) -> dict[str, GenerationSet]:
    given = {"prompt": None, "image": frame()}
    return {
        name: server.generate(PROMPT, seeds=(3,), sampling=STEPS, images=images)
        for name, images in given.items()
    }


def pixels(frames) -> np.ndarray:
    return np.stack([np.asarray(picture) for picture in frames])


@pytest.mark.parametrize("name", ["prompt", "image"])
def test_it_sends_the_frames_of_the_engine_in_process(
    name: str, sets: dict[str, GenerationSet], tiny_ti2v: Path, server: Server
) -> None:
    from vllm_omni.diffusion.utils.media_utils import mux_video_audio_bytes

    images = frame() if name == "image" else None
    own = wb.generate(str(tiny_ti2v), PROMPT, seeds=(3,), sampling=STEPS, images=images)[0]
    wanted = decode(mux_video_audio_bytes(pixels(own.frames), fps=STEPS.fps, **ENCODER)).frames
    np.testing.assert_array_equal(pixels(sets[name][0].frames), pixels(wanted))


def test_what_is_lossy_says_so(sets: dict[str, GenerationSet], server: Server) -> None:
    for drawn in sets.values():
        (item,) = drawn
        assert drawn.codec == item.codec == "h264"
        assert drawn.spec.route == "videos"
        assert decode(item.mp4().read_bytes()).fps == STEPS.fps
        assert item.stage_durations_s
        with pytest.raises(StoreError, match="holds no trajectory"):
            _ = item.trajectory
    assert wb.load(sets["image"].key).codec == "h264"
    np.testing.assert_array_equal(np.asarray(sets["image"][0].input_image), frame())


def test_who_did_not_start_the_server_may_not_ask_for_videos(server: Server) -> None:
    for route in ("/v1/videos", "/v1/videos/sync"):
        form = {"prompt": (None, "a ball"), "frame_interpolation_model_path": (None, "/tmp")}
        assert httpx.post(f"{server.url}{route}", files=form).status_code == 401
    assert httpx.get(f"{server.url}/v1/models").status_code == 200


def test_a_load_of_videos_is_answered_whole(sets: dict[str, GenerationSet], server: Server) -> None:
    load = wb.Workload([PROMPT], seeds=(3,), sampling=STEPS, requests=3, concurrency=2)
    result = server.load(load)
    assert not result.failed
    assert {row.sha256 for row in result.rows} == {sets["prompt"][0].sha256}
    assert {row.pictures for row in result.rows} == {1}
    assert " clips/s;" in str(result)


def test_a_load_begins_with_the_first_frame(sets: dict[str, GenerationSet], server: Server) -> None:
    load = wb.Workload([PROMPT], seeds=(3,), sampling=STEPS, requests=2, concurrency=2)
    result = server.load(load, images=[frame()])
    assert not result.failed
    assert {row.sha256 for row in result.rows} == {sets["image"][0].sha256}
    assert result.workload.images == sets["image"].spec.images


def test_the_routes_of_pictures_are_refused(server: Server) -> None:
    with pytest.raises(SpecError, match="this model draws videos; use route='videos'"):
        server.generate(PROMPT, sampling=STEPS, route="images")
