"""Video files as FFmpeg opens them: from memory, as one container, held to the limits by header and by packets.

Place: under `decode_clip`, which decodes what is opened here. FFmpeg reads the file as the container that its first
bytes say and no other, with the decoders of `clips.CODECS` alone; of its streams the first that is a video.

A survey reads the packets and decodes none of them: how many frames there will be, at which rate, and whether so many
of them may be decoded at all. What is then kept of them has limits of its own.

Of the other streams nothing is read that need not be, and all that is read counts.

Must never: open a path, a protocol or a playlist, or trust a header's counts: they are refused where they are over a
limit, packets are counted, and the decoder counts again.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass

import av
import av.logging
from av.stream import Discard

from encoder_server import clips, scans
from encoder_server.engine.bounds import LEAST_PIXELS, Bounds
from encoder_server.engine.decode import BadMediaError

av.logging.set_level(None)

_DECODERS = (*clips.CODECS, "libdav1d")
_OPTIONS = {
    "protocol_whitelist": "none",
    "codec_whitelist": ",".join(_DECODERS),
    "max_streams": "16",
    "probesize": str(2**20),
}
_LARGEST_BLOCK = 128
_ANY_PIXELS = 2**22
_FASTEST = 1000
_SAME_RATE = 0.05
_VP8_SHOWN = 0x10
_MOST_TIMES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many frames a video shows, and how many of them in a second; None where neither header nor times say."""

    frames: int
    fps: float | None


@contextlib.contextmanager
def opened(
    content: bytes, container: str, bounds: Bounds
) -> Iterator[tuple[av.container.InputContainer, av.VideoStream]]:
    """Open `content` and give the file and its video, whose header keeps the limits; raises BadMediaError."""
    with av.open(io.BytesIO(content), mode="r", format=container, options=_OPTIONS) as file:
        stream = _video(file)
        _hold_to_limits(file, stream, bounds)
        for other in file.streams:
            if other.index != stream.index:
                other.discard = Discard.all  # Neither decoded nor, where the container allows that, read.
        yield file, stream


def survey(content: bytes, container: str, bounds: Bounds) -> Count:
    """Count the frames of a file by its packets; raises BadMediaError where decoding them would be too much.

    An estimate: some packets are no frame that is shown. Those that say so themselves are left out.
    """
    shown, first, last = 0, None, None
    with opened(content, container, bounds) as (file, stream):
        codec = stream.codec_context.codec.name
        for packets, packet in enumerate(_packets(file, stream, len(content)), start=1):
            limit_work(stream.width, stream.height, packets, bounds)
            if codec == "mjpeg" and scans.too_many(bytes(packet)):
                raise BadMediaError(f"a frame is a JPEG of more than {scans.MOST} scans, the limit")
            if packet.is_discard or (codec == "vp8" and not memoryview(packet)[0] & _VP8_SHOWN):
                continue
            shown += 1
            at = packet.dts if packet.pts is None else packet.pts
            if at is not None:
                first, last = (at, at) if first is None or last is None else (min(first, at), max(last, at))
        base = float(stream.time_base or 0)
        count = counted(stream, shown, None if first is None else first * base, None if last is None else last * base)
    limit_seconds(count, bounds)
    return count


def _packets(
    file: av.container.InputContainer, stream: av.VideoStream, length: int
) -> Iterator[av.Packet[av.stream.Stream]]:
    """Give the packets of `stream`, while all that is read of a file of `length` bytes, be it of another stream, is no
    more than a whole one has: a table may name the same bytes again and again, and be read for hours."""
    size = 0
    for packet in file.demux():
        size += packet.size
        if size > _MOST_TIMES * length:
            raise BadMediaError("the video is damaged: its packets have more bytes than it has")
        if packet.stream_index == stream.index and packet.size:
            yield packet


def counted(stream: av.VideoStream, frames: int, first: float | None, last: float | None) -> Count:
    """Count `frames`, shown from `first` to `last` in seconds: `fps` is what the file says where those agree."""
    stated, shown = float(stream.average_rate or 0), 0.0
    if first is not None and last is not None and last > first:
        shown = (frames - 1) / (last - first)
    agrees = not shown or abs(stated - shown) <= _SAME_RATE * shown
    fps = next((fps for fps in ((stated if agrees else 0.0), shown) if 0 < fps <= _FASTEST), None)
    return Count(frames=frames, fps=fps)


def limit_frame(width: int, height: int, bounds: Bounds) -> None:
    """Hold one frame to the limit; raises BadMediaError."""
    if width * height > bounds.max_pixels:
        raise BadMediaError(f"the video's frames are {width}x{height}; the limit is {bounds.max_pixels} pixels")


def limit_work(width: int, height: int, frames: int, bounds: Bounds) -> None:
    """Hold all frames that are decoded to the limit, whether they are kept or not; raises BadMediaError."""
    if not bounds.allow_decoding(width, height, frames):
        raise BadMediaError(
            f"the video has {frames} frames of {width}x{height} or more to decode; the limit is"
            f" {bounds.max_decoded_pixels} pixels (a frame counts as {LEAST_PIXELS} at least)"
        )


def limit_seconds(count: Count, bounds: Bounds) -> None:
    """Hold the length of a video to the limit; raises BadMediaError."""
    _limit_seconds(count.frames / count.fps if count.fps else 0.0, bounds)


def _video(file: av.container.InputContainer) -> av.VideoStream:
    streams = [each for each in file.streams.video if not each.disposition & av.stream.Disposition.attached_pic]
    if not streams:
        raise BadMediaError("the file has no video in it")
    if streams[0].codec_context is None or streams[0].codec_context.codec.name not in _DECODERS:
        raise BadMediaError(f"the video is of a coding that is not taken ({', '.join(clips.CODECS)} are)")
    return streams[0]


def _hold_to_limits(file: av.container.InputContainer, stream: av.VideoStream, bounds: Bounds) -> None:
    """Hold what the header says to the limits, before a frame is decoded."""
    limit_frame(stream.width, stream.height, bounds)
    limit_work(stream.width, stream.height, max(stream.frames, 1), bounds)
    own = float(stream.duration * stream.time_base) if stream.duration and stream.time_base else 0.0
    _limit_seconds(max(own, (file.duration or 0) / av.time_base), bounds)
    stream.thread_type = "NONE"
    stream.codec_context.thread_count = 1
    # A decoder must not allocate for a frame much larger than the header says; whole blocks, and small ones, it may.
    most = max((stream.width + _LARGEST_BLOCK) * (stream.height + _LARGEST_BLOCK), _ANY_PIXELS)
    stream.codec_context.options = {"max_pixels": str(most)}


def _limit_seconds(seconds: float, bounds: Bounds) -> None:
    if seconds > bounds.max_video_seconds:
        raise BadMediaError(f"{seconds:.1f} s of video; the limit is {bounds.max_video_seconds:g} s")
