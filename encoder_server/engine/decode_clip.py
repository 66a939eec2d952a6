"""Bytes of a video to frames: a file's, or a list's of pictures, in the order in which they are shown.

Place: first stage of the engine, beside `decode`; `preprocess` takes what comes out. The rules for a video file:
FFmpeg reads it from memory as the container that its first bytes say and no other, with the decoders of
`clips.CODECS` alone; the first stream that is a video; every frame of it, 8-bit RGB, turned upright by the stream's
rotation, of one size. `fps` is what the file says where the frames' own times agree, else theirs. Transparency in a
video file is not looked at; frames of a list are pictures, and follow a picture's rules.

Nothing is sampled here: which frames it looks at is the family's matter, and what is over a limit is refused.

Must never: open a path, a protocol or a playlist, let a library's own text out, hold a frame beyond a limit, or trust
a header's counts: they are refused where they are over a limit, and the decoder counts again.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import av
import av.error
import av.logging
import numpy as np
import numpy.typing as npt

from encoder_server import clips, scans
from encoder_server.encoders import Clip
from encoder_server.engine.bounds import Bounds
from encoder_server.engine.decode import BadMediaError, decode_picture

av.logging.set_level(None)

_DECODERS = (*clips.CODECS, "libdav1d")
_OPTIONS = {
    "protocol_whitelist": "none",
    "codec_whitelist": ",".join(_DECODERS),
    "max_streams": "16",
    "probesize": str(2**20),
}
# Packets that hold no frame to be shown, such as those that only refer to another.
_SPARE_PACKETS = 64
_LARGEST_BLOCK = 128
_ANY_PIXELS = 2**22
_FASTEST = 1000
_SAME_RATE = 0.05


def decode_frames(frames: Sequence[bytes | memoryview], *, fps: float | None, bounds: Bounds) -> Clip:
    """Decode a video that came as picture files of one size; raises BadMediaError that names the frame."""
    _limit_frames(len(frames), bounds)
    whole: npt.NDArray[np.uint8] | None = None
    for at, frame in enumerate(frames):
        try:
            pixels = decode_picture(frame, max_pixels=bounds.max_pixels).pixels
        except BadMediaError as error:
            raise BadMediaError(str(error), frame=at) from error
        if whole is None:
            _limit_pixels(pixels.shape[1], pixels.shape[0], len(frames), bounds)
            whole = np.empty((len(frames), *pixels.shape), dtype=np.uint8)
        if pixels.shape != whole.shape[1:]:
            raise BadMediaError("the frame is of another size than the first", frame=at)
        whole[at] = pixels
    if whole is None:
        raise BadMediaError("the video has no frames")
    return Clip(frames=whole, fps=fps)


def decode_clip(data: bytes | memoryview, *, bounds: Bounds) -> Clip:
    """Decode `data`, a video file; raises BadMediaError."""
    try:
        container = clips.check(data)
    except clips.ClipError as wrong:
        raise BadMediaError(str(wrong)) from wrong
    try:
        return _decode(data, container, bounds)
    # FFmpeg says that it is out of memory of a frame that is larger than its header says, too.
    except av.error.FFmpegError as error:
        raise BadMediaError("the video is damaged or cut short") from error
    except (BadMediaError, MemoryError):
        raise
    except Exception as error:
        raise BadMediaError("the video is damaged or cut short") from error


def _decode(data: bytes | memoryview, container: str, bounds: Bounds) -> Clip:
    with av.open(
        io.BytesIO(data),
        mode="r",
        format=container,
        options=_OPTIONS,
    ) as file:
        stream = _video(file)
        _hold_to_limits(file, stream, bounds)
        buffer = bytearray()
        times: list[float | None] = []
        shape: tuple[int, ...] | None = None
        for frame in _frames(file, stream, bounds):
            pixels = np.rot90(frame.to_ndarray(format="rgb24"), k=round(frame.rotation / 90) % 4)
            if shape not in (None, pixels.shape):
                raise BadMediaError("the video changes the size of its frames")
            shape = pixels.shape
            _limit_pixels(shape[1], shape[0], len(times) + 1, bounds)
            buffer += np.ascontiguousarray(pixels).data.cast("B")
            times.append(frame.time)
        if shape is None:
            raise BadMediaError("the video has no frames")
        if len(times) < stream.frames:
            raise BadMediaError(f"the video is damaged or cut short: it has {len(times)} of {stream.frames} frames")
        fps = _fps(float(stream.average_rate or 0), times)
        _limit_seconds(len(times) / fps if fps else 0, bounds)
        return Clip(frames=np.frombuffer(buffer, dtype=np.uint8).reshape(len(times), *shape), fps=fps)


def _video(file: av.container.InputContainer) -> av.VideoStream:
    streams = [each for each in file.streams.video if not each.disposition & av.stream.Disposition.attached_pic]
    if not streams:
        raise BadMediaError("the file has no video in it")
    if streams[0].codec_context is None or streams[0].codec_context.codec.name not in _DECODERS:
        raise BadMediaError(f"the video is of a coding that is not taken ({', '.join(clips.CODECS)} are)")
    return streams[0]


def _hold_to_limits(file: av.container.InputContainer, stream: av.VideoStream, bounds: Bounds) -> None:
    """Hold what the header says to the limits, before a frame is decoded."""
    _limit_frames(stream.frames, bounds)
    _limit_pixels(stream.width, stream.height, max(stream.frames, 1), bounds)
    own = float(stream.duration * stream.time_base) if stream.duration and stream.time_base else 0.0
    _limit_seconds(max(own, (file.duration or 0) / av.time_base), bounds)
    stream.thread_type = "NONE"
    stream.codec_context.thread_count = 1
    # A decoder must not allocate for a frame much larger than the header says; whole blocks, and small ones, it may.
    most = max((stream.width + _LARGEST_BLOCK) * (stream.height + _LARGEST_BLOCK), _ANY_PIXELS)
    stream.codec_context.options = {"max_pixels": str(most)}


def _frames(file: av.container.InputContainer, stream: av.VideoStream, bounds: Bounds) -> Iterator[av.VideoFrame]:
    frames = 0
    # Those of a frame that is not shown are decoded too: so many as go into the limit of pixels are enough.
    most = min(bounds.max_frames, bounds.max_clip_pixels // max(stream.width * stream.height, 1))
    for packets, packet in enumerate(file.demux(stream)):
        if packets > 2 * most + _SPARE_PACKETS:
            raise BadMediaError(f"the video has more packets than {most} frames need, the limit for frames of its size")
        if stream.codec_context.codec.name == "mjpeg" and scans.too_many(bytes(packet)):
            raise BadMediaError(f"a frame is a JPEG of more than {scans.MOST} scans, the limit")
        for frame in packet.decode():
            frames += 1
            _limit_frames(frames, bounds)
            yield frame


def _fps(stated: float, times: Sequence[float | None]) -> float | None:
    first, last = times[0], times[-1]
    shown = 0.0
    if first is not None and last is not None and last > first:
        shown = (len(times) - 1) / (last - first)
    agrees = not shown or abs(stated - shown) <= _SAME_RATE * shown
    return next((fps for fps in ((stated if agrees else 0.0), shown) if 0 < fps <= _FASTEST), None)


def _limit_frames(frames: int, bounds: Bounds) -> None:
    if frames > bounds.max_frames:
        raise BadMediaError(f"the video has {frames} frames or more; the limit is {bounds.max_frames}")


def _limit_pixels(width: int, height: int, frames: int, bounds: Bounds) -> None:
    if width * height > bounds.max_pixels:
        raise BadMediaError(f"the video's frames are {width}x{height}; the limit is {bounds.max_pixels} pixels")
    if width * height * frames > bounds.max_clip_pixels:
        raise BadMediaError(
            f"the video's frames are {width}x{height}, {frames} of them or more are {width * height * frames} pixels;"
            f" the limit is {bounds.max_clip_pixels}"
        )


def _limit_seconds(seconds: float, bounds: Bounds) -> None:
    if seconds > bounds.max_video_seconds:
        raise BadMediaError(f"{seconds:.1f} s of video; the limit is {bounds.max_video_seconds:g} s")
