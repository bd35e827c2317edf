"""H.264 files: what is in them is what was put there, up to the codec's loss."""

from io import BytesIO

import av
import numpy as np
import pytest
from PIL import Image

from workbench.errors import SpecError
from workbench.videos import decode, encode


def clip(frames: int = 9, height: int = 64, width: int = 96) -> list[Image.Image]:
    """A smooth pattern that moves."""
    y, x = np.mgrid[0:height, 0:width] / width
    return [
        Image.fromarray(
            (127 * (1 + np.sin(np.stack([6 * x + 0.2 * t, 5 * y, 4 * (x + y)], -1)))).astype("u1")
        )
        for t in range(frames)
    ]


def psnr_db(one, other) -> float:
    a, b = (np.stack([np.asarray(frame) for frame in clip]).astype(float) for clip in (one, other))
    return 10 * np.log10(255**2 / ((a - b) ** 2).mean())


@pytest.mark.parametrize("fps", [16.0, 24.0, 23.976, 0.5, 0.001, 1000])
def test_a_file_holds_the_frames_at_their_size_and_rate(fps: float) -> None:
    video = decode(encode(clip(), fps))
    assert (len(video.frames), video.frames[0].size, video.codec) == (9, (96, 64), "h264")
    assert video.fps == pytest.approx(fps, rel=1e-3)
    assert psnr_db(clip(), video.frames) > 35


@pytest.mark.parametrize("rgb", [(200, 30, 60), (20, 180, 40), (30, 60, 220), (255, 255, 255)])
def test_a_file_is_in_the_colours_of_bt709_and_says_so(rgb: tuple[int, int, int]) -> None:
    content = encode([Image.new("RGB", (64, 64), rgb)] * 2, 16, crf=0)
    with av.open(BytesIO(content)) as container:
        (stream,) = container.streams
        frame = next(container.decode(stream))
        for tagged in (stream.codec_context, frame):
            assert (tagged.colorspace, tagged.color_primaries, tagged.color_trc) == (1, 1, 1)
            assert tagged.color_range == 1  # limited: luma is 16 to 235
        luma = np.asarray(frame.to_ndarray())[:64]
    # ITU-R BT.709-6, part 3: luma = 0.2126 R + 0.7152 G + 0.0722 B, 8 bits of it 219 luma + 16
    wanted = 16 + 219 * np.dot((0.2126, 0.7152, 0.0722), rgb) / 255
    np.testing.assert_allclose(luma, wanted, atol=1)
    back = np.asarray(decode(content).frames[1], float)
    np.testing.assert_allclose(back, np.broadcast_to(rgb, back.shape), atol=3)


def test_a_file_that_says_no_colours_is_read_as_bt601() -> None:
    buffer, picture = BytesIO(), Image.new("RGB", (64, 64), (200, 30, 60))
    with av.open(buffer, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=16)
        stream.width, stream.height, stream.pix_fmt, stream.options = (
            64,
            64,
            "yuv420p",
            {"crf": "0"},
        )
        container.mux(stream.encode(av.VideoFrame.from_image(picture)))
        container.mux(stream.encode(None))
    (frame,) = decode(buffer.getvalue()).frames
    np.testing.assert_allclose(np.asarray(frame, float), np.asarray(picture), atol=3)


def test_a_lower_rate_factor_loses_less() -> None:
    sizes = [len(encode(clip(), 16, crf=crf)) for crf in (0, 16, 40)]
    assert sizes == sorted(sizes, reverse=True)


def test_what_is_no_video_is_refused() -> None:
    with pytest.raises(SpecError, match="use even ones"):
        encode(clip(height=63), 16)
    for fps in (0, 1e-5, 2000, float("nan")):  # at 2000 one of 5 frames is lost, at 1e-5 it says 24
        with pytest.raises(SpecError, match=f"fps={fps}: .* from 0.001 to 1000"):
            encode(clip(), fps)
    with pytest.raises(SpecError, match="frames of one size"):
        encode([*clip(2), *clip(2, height=32)], 16)
    for content in (b"", b"no video at all"):
        with pytest.raises(SpecError, match="hold no video"):
            decode(content)
