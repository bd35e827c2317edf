"""What is sent over HTTP, what an answer holds, and whom the door lets through."""

import asyncio
import base64
import json
from io import BytesIO

import httpx
import pytest
from PIL import Image

import workbench as wb
from workbench.errors import LaunchFailed, NotSupportedHere, SpecError
from workbench.serve import server_door, server_requests, server_session
from workbench.serve.server_requests import answer, check_route, payload, posted
from workbench.videos import Video

SAMPLING = wb.Sampling(
    num_inference_steps=3, height=64, width=128, true_cfg_scale=4.0, negative_prompt=" "
)


def encoded():
    stream = BytesIO()
    Image.new("RGB", (4, 2), "red").save(stream, format="PNG")
    return base64.b64encode(stream.getvalue()).decode()


def test_a_request_of_the_images_route_is_lossless_and_seeded():
    sent = payload("images", "a car", 2**63 - 1, SAMPLING)
    assert sent == {
        "prompt": "a car",
        "seed": 2**63 - 1,
        "generator_device": "cpu",
        "n": 1,
        "response_format": "b64_json",
        "output_format": "png",
        "return_stage_metrics": True,
        "num_inference_steps": 3,
        "true_cfg_scale": 4.0,
        "negative_prompt": " ",
        "size": "128x64",
    }


def test_a_request_of_the_videos_route_is_a_form_with_the_guidance_of_both_transformers():
    sampling = SAMPLING.but(num_frames=5, guidance_scale=4.0, guidance_scale_2=3.0)
    parts = posted("videos", "a car", 1, sampling, b"png")["files"]
    sent = [parts[name] for name in ("guidance_scale", "guidance_scale_2", "num_frames")]
    assert sent == [(None, "4.0"), (None, "3.0"), (None, "5")]
    assert "guidance_scale_2" not in posted("videos", "a car", 1, SAMPLING)["files"]


def test_a_request_of_the_chat_route_has_the_prompt_as_its_message():
    sent = payload("chat", "a car", 1, SAMPLING)
    assert sent["messages"] == [{"role": "user", "content": "a car"}]
    assert sent["size"] == "128x64"
    assert "generator_device" not in sent


def test_an_answer_of_the_images_route():
    body = {
        "data": [{"b64_json": encoded()}],
        "metrics": {"stage_durations": {"vae_ms": 500.0}, "peak_memory_mb": 1.0},
    }
    got = answer("images", httpx.Response(200, json=body))
    assert got.frames[0].size == (4, 2)
    assert got.stage_durations_s == {"vae": 0.5}
    assert got.queue_wait_s is None


def test_an_answer_of_the_images_route_says_how_long_it_waited_for_the_scheduler():
    stages = {"0": {"stage_id": 0, "diffusion_metrics": {"scheduler_queue_wait_s": 0.25}}}
    body = {"data": [{"b64_json": encoded()}], "metrics": {"stage_metrics": stages}}
    assert answer("images", httpx.Response(200, json=body)).queue_wait_s == 0.25


def test_an_answer_of_the_chat_route():
    url = f"data:image/png;base64,{encoded()}"
    part = {"type": "image_url", "image_url": {"url": url}, "stage_durations": {"vae": 0.5}}
    body = {"choices": [{"message": {"content": [part]}}]}
    got = answer("chat", httpx.Response(200, json=body))
    assert got.frames[0].size == (4, 2)
    assert got.stage_durations_s == {"vae": 0.5}


def test_an_answer_without_a_picture_says_what_the_server_said():
    with pytest.raises(LaunchFailed, match="HTTP 400: no such model"):
        answer("images", httpx.Response(400, text="no such model"))
    body = {"choices": [{"message": {"content": "no images were produced"}}]}
    with pytest.raises(LaunchFailed, match="no images were produced"):
        answer("chat", httpx.Response(200, json=body))


@pytest.mark.parametrize(
    ("route", "sampling", "message"),
    [
        ("video", {}, "there are images, chat, videos"),
        ("images", {"num_frames": 5}, "this model draws videos; use route='videos'"),
        ("videos", {}, "this model draws images; use route='images'"),
        ("videos", {"num_frames": 5, "fps": 0.5}, "fps=0.5: a server takes 1 or more"),
        ("images", {"num_inference_steps": 201}, "up to 200"),
        ("images", {"guidance_scale": 21}, "up to 20"),
        ("videos", {"num_frames": 5, "guidance_scale_2": 21}, "guidance_scale_2=21.0: .* up to 20"),
    ],
)
def test_what_a_route_does_not_take_is_refused(route, sampling, message):
    with pytest.raises(SpecError, match=message):
        check_route(route, wb.Sampling(**sampling))


def test_the_chat_route_is_refused_where_the_gpu_would_draw_the_noise(monkeypatch):
    monkeypatch.setattr(server_requests, "gpus", lambda: [{"name": "a GPU"}])
    check_route("images", SAMPLING)
    with pytest.raises(NotSupportedHere, match="route='images'"):
        check_route("chat", SAMPLING)


@pytest.mark.parametrize(
    ("frames", "size", "fps", "says"),
    [
        (9, (128, 64), 8.0, "sent 9 frames of .128, 64. at 8.0 a second, and 5 of .128, 64. at 8"),
        (5, (64, 128), 8.0, "sent 5 frames of .64, 128. at 8.0"),
        (5, (128, 64), 16.0, "at 16.0 a second, and 5 of .128, 64. at 8.0 were asked for"),
        (0, (128, 64), 8.0, "sent 0 frames of None"),
    ],
)
def test_a_video_of_other_frames_size_or_rate_is_refused(frames, size, fps, says):
    asked = SAMPLING.but(num_frames=5, fps=8.0)
    wrong = Video(frames=[Image.new("RGB", size)] * frames, fps=fps, codec="h264")
    with pytest.raises(LaunchFailed, match=says):
        server_requests.check_video(wrong, asked)
    right = Video(frames=[Image.new("RGB", (128, 64))] * 5, fps=8.001, codec="h264")
    server_requests.check_video(right, asked)


def test_a_server_gives_up_on_a_video_when_its_client_does():
    told = server_session._environment("secret")
    assert float(told["VLLM_OMNI_VIDEO_SYNC_TIMEOUT"]) == server_session.REQUEST_TIMEOUT_S > 600


READ = ("/health", "/version", "/metrics", "/v1/models")
ASKED = (
    *("/v1/images/generations", "/v1/images/edits", "/v1/chat/completions", "/v1/videos/sync"),
    *("/v1/audio/generate", "/v1/omni/sleep", "/v1/load_lora_adapter", "/collective_rpc", "/sleep"),
    *("/openapi.json", "/", "", "/v1", "/v1/models/", "//v1/models", "/health/../sleep"),
)
RIGHT = ("Bearer secret", "bearer secret")
WRONG = (None, "", "secret", "Basic secret", "Bearer", "Bearer ", "Bearer wrong", "Bearer secre")


def through_the_door(monkeypatch, scope, authorization):
    """What an application behind the door and a client before it get."""
    got, sent = [], []
    headers = [(b"host", b"server")]
    if authorization is not None:
        headers.append((b"authorization", authorization.encode()))

    async def inside(scope, receive, send):
        got.append(scope)

    async def send(message):
        sent.append(message)

    monkeypatch.setenv(server_door.TOKEN, "secret")
    asyncio.run(server_door.Door(inside)({**scope, "headers": headers}, None, send))
    return got, sent


@pytest.mark.parametrize("path", READ)
def test_anyone_may_read_the_state_of_a_server(monkeypatch, path):
    for method in ("GET", "HEAD"):
        scope = {"type": "http", "method": method, "path": path}
        assert through_the_door(monkeypatch, scope, None)[0] == [
            {**scope, "headers": [(b"host", b"server")]}
        ]
    for method in ("POST", "DELETE", "OPTIONS"):
        scope = {"type": "http", "method": method, "path": path}
        assert not through_the_door(monkeypatch, scope, None)[0]


@pytest.mark.parametrize("path", ASKED)
def test_all_else_wants_the_token(monkeypatch, path):
    for method in ("GET", "POST"):
        scope = {"type": "http", "method": method, "path": path}
        for right in RIGHT:
            assert through_the_door(monkeypatch, scope, right)[0]
        for wrong in WRONG:
            got, (start, body) = through_the_door(monkeypatch, scope, wrong)
            assert not got
            assert start["status"] == 401
            assert dict(start["headers"])[b"www-authenticate"] == b"Bearer"
            assert "server.token" in json.loads(body["body"])["error"]["message"]


def test_a_web_socket_wants_the_token(monkeypatch):
    scope = {"type": "websocket", "path": "/v1/realtime/video"}
    assert through_the_door(monkeypatch, scope, "Bearer secret")[0]
    for path in ("/v1/realtime/video", "/v1/models"):
        got, sent = through_the_door(monkeypatch, {**scope, "path": path}, None)
        assert (got, sent) == ([], [{"type": "websocket.close", "code": 1008}])


def test_a_server_may_start_and_end_without_one(monkeypatch):
    assert through_the_door(monkeypatch, {"type": "lifespan"}, None)[0]
