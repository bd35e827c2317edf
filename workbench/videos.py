"""Frames into an H.264 file that people watch, and a file back into frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from typing import TYPE_CHECKING

from workbench.errors import SpecError
from workbench.sampling import possible_fps

if TYPE_CHECKING:
    import av
    from PIL import Image

CRF = 16
"""x264's constant rate factor: 0 is lossless, 18 is called visually lossless, 51 the worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Video:
    """What a file holds."""

    frames: list[Image.Image]
    fps: float
    codec: str
    """Such as ``h264``."""


def encode(
    frames: Sequence[Image.Image], fps: float, *, crf: int = CRF, preset: str = "medium"
) -> bytes:
    """An MP4 file: H.264, yuv420p, the size of the frames, in the colours of BT.709.

    The file says so, as players guess by the size where none is said.

    Args:
        frames: RGB, of one size with even sides.
        fps: Frames a second, 0.001 to 1000.
        crf: x264's constant rate factor, 0 to 51.
        preset: x264's, ``ultrafast`` to ``veryslow``.

    Raises:
        SpecError: frames of several sizes, odd sides, or an impossible fps.
    """
    import av

    width, height = _size(frames)
    try:
        possible_fps(fps)
    except ValueError as error:
        raise SpecError(f"fps={fps}: {error}") from None
    buffer = BytesIO()
    with av.open(buffer, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(10_000))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.options = {"crf": str(crf), "preset": preset}
        _tag(stream.codec_context)
        for frame in frames:
            container.mux(stream.encode(_bt709(frame)))
        container.mux(stream.encode(None))
    return buffer.getvalue()


def _tag(context: av.VideoCodecContext) -> None:
    from av.video.reformatter import ColorPrimaries, ColorRange, Colorspace, ColorTrc

    context.colorspace = Colorspace.ITU709
    context.color_primaries, context.color_trc = ColorPrimaries.BT709, ColorTrc.BT709
    context.color_range = ColorRange.MPEG


def _bt709(frame: Image.Image) -> av.VideoFrame:
    """Luma and chroma of an RGB picture; PyAV would take BT.601 by itself."""
    import av
    from av.video.reformatter import ColorRange, Colorspace

    return av.VideoFrame.from_image(frame.convert("RGB")).reformat(
        format="yuv420p", dst_colorspace=Colorspace.ITU709, dst_color_range=ColorRange.MPEG
    )


def decode(content: bytes) -> Video:
    """All frames of a video file, RGB, by the colours that it says; BT.601 where it says none.

    Raises:
        SpecError: no video.
    """
    import av

    try:
        with av.open(BytesIO(content)) as container:
            stream = container.streams.video[0]
            frames = [frame.to_image() for frame in container.decode(stream)]
            fps, codec = float(stream.average_rate or 0), stream.codec_context.name
    except (av.FFmpegError, IndexError) as error:
        raise SpecError(
            f"{len(content)} bytes hold no video that can be read ({error}); give an MP4 file"
        ) from None
    return Video(frames=frames, fps=fps, codec=codec)


def _size(frames: Sequence[Image.Image]) -> tuple[int, int]:
    sizes = {frame.size for frame in frames}
    if len(sizes) != 1:
        raise SpecError(f"{len(frames)} frames of sizes {sorted(sizes)}; give frames of one size")
    (size,) = sizes
    if any(side % 2 for side in size):
        raise SpecError(
            f"frames of {size[0]} x {size[1]} pixels: yuv420p halves both sides; use even ones"
        )
    return size
