"""H.264 files: what is in them is what was put there, up to the codec's loss."""

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


@pytest.mark.parametrize("fps", [16.0, 24.0, 23.976, 0.5])
def test_a_file_holds_the_frames_at_their_size_and_rate(fps: float) -> None:
    video = decode(encode(clip(), fps))
    assert (len(video.frames), video.frames[0].size, video.codec) == (9, (96, 64), "h264")
    assert video.fps == pytest.approx(fps, abs=1e-3)
    assert psnr_db(clip(), video.frames) > 35


def test_a_lower_rate_factor_loses_less() -> None:
    sizes = [len(encode(clip(), 16, crf=crf)) for crf in (0, 16, 40)]
    assert sizes == sorted(sizes, reverse=True)


def test_what_is_no_video_is_refused() -> None:
    with pytest.raises(SpecError, match="use even ones"):
        encode(clip(height=63), 16)
    with pytest.raises(SpecError, match="fps=0"):
        encode(clip(), 0)
    with pytest.raises(SpecError, match="frames of one size"):
        encode([*clip(2), *clip(2, height=32)], 16)
    for content in (b"", b"no video at all"):
        with pytest.raises(SpecError, match="hold no video"):
            decode(content)
