"""Bytes of a video to frames: a file's, or a list's of pictures, in the order in which they are shown.

Place: first stage of the engine, beside `decode`; `preprocess` takes what comes out. The rules for a video file, which
`video_files` opens: 8-bit RGB, turned upright by the stream's rotation, frames of one size. `fps` is what the file says
where the frames' own times agree, else theirs. Transparency in a video file is not looked at; frames of a list are
pictures, and follow a picture's rules.

Which frames of a file are kept is the encoder's to choose, from how many there are and their rate. It is asked when the
packets are counted, and again when the frames are: where those differ, and so does the choice, the file is decoded
once more. So the frames are always those of who decodes everything and then chooses; the rest is decoded, for the
coding needs it, and neither converted nor kept.

Must never: choose by a rule of its own, keep a frame beyond a limit, or let a library's own text out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import av
import av.error
import numpy as np
import numpy.typing as npt

from encoder_server import clips
from encoder_server.encoders import Clip, LayoutError
from encoder_server.engine.bounds import Bounds
from encoder_server.engine.decode import BadMediaError, decode_picture
from encoder_server.engine.video_files import Count, counted, limit_frame, limit_seconds, limit_work, opened, survey

Frames = npt.NDArray[np.uint8]
Choose = Callable[[int, float | None], Sequence[int]]
_DAMAGED = "the video is damaged or cut short"
_TRIES = 2  # By the packets' count and, where that is not the frames', by theirs.


class ChoiceError(Exception):
    """The encoder could not choose frames of a video; its cause says why."""


def decode_frames(frames: Sequence[bytes | memoryview], *, fps: float | None, bounds: Bounds) -> Clip:
    """Decode a video that came as picture files of one size; raises BadMediaError that names the frame."""
    _limit_frames(len(frames), bounds)
    whole: Frames | None = None
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


def decode_clip(data: bytes | memoryview, *, bounds: Bounds, choose: Choose | None = None) -> Clip:
    """Decode `data`, a video file: those frames that `choose` says of so many at such a rate, or all.

    Raises BadMediaError, or ChoiceError where `choose` raises or gives what are no frames of the video.
    """
    try:
        container = clips.check(data)
    except clips.ClipError as wrong:
        raise BadMediaError(str(wrong)) from wrong
    try:
        return _decode(bytes(data), container, bounds, choose)
    # FFmpeg says that it is out of memory of a frame that is larger than its header says, too.
    except av.error.FFmpegError as error:
        raise BadMediaError(_DAMAGED) from error
    except (BadMediaError, ChoiceError, MemoryError):
        raise
    except Exception as error:
        raise BadMediaError(_DAMAGED) from error


def _decode(content: bytes, container: str, bounds: Bounds, choose: Choose | None) -> Clip:
    count = survey(content, container, bounds)
    for _ in range(_TRIES):
        taken = _take(content, container, _chosen(choose, count), bounds)
        count = taken.count
        wanted = _chosen(choose, count)
        frames = taken.of(wanted)
        if frames is not None:
            given = None if choose is None else wanted
            return Clip(frames=frames, fps=count.fps, indices=given, total=count.frames)
    raise BadMediaError(_DAMAGED)


def _chosen(choose: Choose | None, count: Count) -> tuple[int, ...]:
    if not count.frames:
        raise BadMediaError("the video has no frames")
    if choose is None:
        return tuple(range(count.frames))
    try:
        indices = tuple(operator.index(index) for index in choose(count.frames, count.fps))
        strange = [index for index in indices if not 0 <= index < count.frames]
        if strange or not indices:
            raise LayoutError(f"of {count.frames} frames the encoder wants {strange[0] if strange else 'none'}")
    # Whatever it raises: it is the encoder's, and no damage of the file.
    except BaseException as error:
        raise ChoiceError from error
    return indices


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """What one decoding of a file gave: `frames`, one for each of `wanted`, as far as the `count` goes."""

    wanted: tuple[int, ...]
    frames: Frames
    count: Count

    def of(self, indices: tuple[int, ...]) -> Frames | None:
        """Give the frames of these indices, each below the count; None where one of them was not taken."""
        if indices == self.wanted[: len(indices)]:
            return self.frames[: len(indices)]
        places = {index: place for place, index in enumerate(self.wanted)}
        if not places.keys() >= set(indices):
            return None
        return self.frames[[places[index] for index in indices]]


class _Reel:
    """Frames as they come out of the decoder: all are counted and held to the limits, the wanted ones kept."""

    def __init__(self, wanted: Sequence[int], bounds: Bounds) -> None:
        self._bounds = bounds
        self._length = len(wanted)
        self._places: dict[int, list[int]] = {}
        for place, index in enumerate(wanted):
            self._places.setdefault(index, []).append(place)
        self.frames: Frames | None = None
        self.count = 0
        self.first: float | None = None
        self.last: float | None = None

    def add(self, frame: av.VideoFrame) -> None:
        """Take the next frame; raises BadMediaError."""
        self.count += 1
        limit_work(frame.width, frame.height, self.count, self._bounds)
        turns = round(frame.rotation / 90) % 4
        shape = (frame.width, frame.height, 3) if turns % 2 else (frame.height, frame.width, 3)
        if self.frames is None:
            limit_frame(frame.width, frame.height, self._bounds)
            _limit_pixels(frame.width, frame.height, self._length, self._bounds)
            self.frames = np.empty((self._length, *shape), dtype=np.uint8)
            self.first = frame.time
        if shape != self.frames.shape[1:]:
            raise BadMediaError("the video changes the size of its frames")
        self.last = frame.time
        places = self._places.get(self.count - 1)
        if places is not None:
            self.frames[places] = np.rot90(frame.to_ndarray(format="rgb24"), k=turns)


def _take(content: bytes, container: str, wanted: tuple[int, ...], bounds: Bounds) -> _Taken:
    _limit_frames(len(wanted), bounds)
    reel = _Reel(wanted, bounds)
    with opened(content, container, bounds) as (file, stream):
        _limit_pixels(stream.width, stream.height, len(wanted), bounds)
        cut = 0
        for packet in file.demux(stream):
            cut += packet.is_discard  # Before or after the part that the file says is to be shown.
            for frame in packet.decode():
                reel.add(frame)
        count = counted(stream, reel.count, reel.first, reel.last)
        if reel.frames is None:
            raise BadMediaError("the video has no frames")
        if count.frames < stream.frames - cut:
            raise BadMediaError(f"{_DAMAGED}: it has {count.frames} of {stream.frames - cut} frames")
    limit_seconds(count, bounds)
    return _Taken(wanted=wanted, frames=reel.frames, count=count)


def _limit_frames(frames: int, bounds: Bounds) -> None:
    if frames > bounds.max_frames:
        raise BadMediaError(f"{frames} frames of the video are taken; the limit is {bounds.max_frames}")


def _limit_pixels(width: int, height: int, frames: int, bounds: Bounds) -> None:
    if width * height * frames > bounds.max_clip_pixels:
        raise BadMediaError(
            f"the video's frames are {width}x{height}, the {frames} of them that are taken are"
            f" {width * height * frames} pixels; the limit is {bounds.max_clip_pixels}"
        )
