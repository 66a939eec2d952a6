"""Video files that are not what their packets seem to say, put together from the packets of sound ones."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import av
import numpy

from tests.support.media import clip

_VP8_SHOWN = 0x10
_SUPERFRAME_OF_TWO = 0xC0 | 3 << 3 | 1  # with four bytes for each length


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """A packet as its file has it; times are in the stream's own base."""

    data: bytes
    pts: int
    dts: int
    key: bool


def moving(frames: int, fps: int, *, width: int = 64, height: int = 48, seed: int = 0, form: str = "mp4") -> bytes:
    """An H.264 file of coarse noise that moves, so that no frame looks like another."""
    noise = numpy.random.default_rng((seed, width, height))
    cells = noise.integers(0, 256, (height // 8 + 2, width // 8 + 2, 3), dtype=numpy.uint8)
    sheet = cells.repeat(8, axis=0).repeat(8, axis=1)
    file = io.BytesIO()
    with av.open(file, "w", format=form) as made:
        stream = made.add_stream("libx264", rate=fps, options={"preset": "ultrafast", "crf": "30"})
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for at in range(frames):
            shown = numpy.roll(sheet, (3 * at, 7 * at), axis=(0, 1))[:height, :width]
            made.mux(stream.encode(av.VideoFrame.from_ndarray(numpy.ascontiguousarray(shown), format="rgb24")))
        made.mux(stream.encode())
    return file.getvalue()


def packets(content: bytes) -> list[Packet]:
    """The packets of a file's video."""
    with av.open(io.BytesIO(content), "r") as file:
        return [
            Packet(data=bytes(each), pts=each.pts or 0, dts=each.dts or 0, key=each.is_keyframe)
            for each in file.demux(video=0)
            if each.size
        ]


def with_packets(content: bytes, given: Sequence[Packet], form: str) -> bytes:
    """A file of `content`'s video stream, in another container where `form` says so, with these packets."""
    made = io.BytesIO()
    with av.open(io.BytesIO(content), "r") as file, av.open(made, "w", format=form) as out:
        base = file.streams.video[0].time_base or Fraction(1, 1000)
        stream = out.add_stream_from_template(file.streams.video[0])
        for each in given:
            packet = av.Packet(each.data)
            packet.pts, packet.dts, packet.time_base, packet.is_keyframe = each.pts, each.dts, base, each.key
            packet.stream = stream
            out.mux(packet)
    return made.getvalue()


def hidden_frames() -> bytes:
    """VP8 in which every fifth frame is decoded and not shown, as its packet says: 16 of 20 are."""
    whole = clip([12 * at for at in range(20)], form="webm", codec="libvpx")
    given = [
        replace(each, data=_with_first(each.data, each.data[0] & ~_VP8_SHOWN)) if at % 5 == 4 else each
        for at, each in enumerate(packets(whole))
    ]
    return with_packets(whole, given, "webm")


def two_in_a_packet() -> bytes:
    """VP9 with ten packets of two frames each, all shown."""
    stills = [_still(12 * at) for at in range(20)]
    given = [
        Packet(data=_together(one, other), pts=100 * at, dts=100 * at, key=True)
        for at, (one, other) in enumerate(zip(stills[::2], stills[1::2], strict=True))
    ]
    return with_packets(clip([0], form="webm", codec="libvpx-vp9"), given, "webm")


def joined_in_the_middle() -> bytes:
    """H.264 that begins with twenty packets of which no decoder makes a frame, for the first picture is missing."""
    whole = clip([9 * at for at in range(25)], form="matroska")
    given = packets(whole)
    later = given[-1].pts + 200
    return with_packets(
        whole,
        [*given[5:], *(replace(each, pts=each.pts + later, dts=each.dts + later) for each in given)],
        "matroska",
    )


def cut_by_an_edit_list(frames: int = 7) -> bytes:
    """MP4 of 25 frames whose edit list says that the first ones are not shown."""
    whole = clip([9 * at for at in range(25)])
    given = packets(whole)
    earlier = frames * (given[1].dts - given[0].dts)
    return with_packets(whole, [replace(each, pts=each.pts - earlier, dts=each.dts - earlier) for each in given], "mp4")


def black(packets_in_all: int, fps: int = 24) -> bytes:
    """A file with so many black frames of 3840x2160, of a few bytes each."""
    whole = clip([0, 0], width=3840, height=2160, form="matroska", codec="libx264")
    first, second = packets(whole)
    step = 1000 / fps
    given = [first, *(replace(second, pts=round(step * at), dts=round(step * at)) for at in range(1, packets_in_all))]
    return with_packets(whole, given, "matroska")


def _still(shade: int) -> bytes:
    return packets(clip([shade], form="webm", codec="libvpx-vp9"))[0].data


def _together(one: bytes, other: bytes) -> bytes:
    index = bytes([_SUPERFRAME_OF_TWO])
    return one + other + index + len(one).to_bytes(4, "little") + len(other).to_bytes(4, "little") + index


def _with_first(data: bytes, byte: int) -> bytes:
    return bytes([byte & 0xFF]) + data[1:]


def overlapping(samples: int, size: int) -> bytes:
    """MP4 whose table names the same bytes for every sample, and so many of them."""
    return _overlapping(moving(2, 25), samples, size)


def overlapping_beside(samples: int, size: int) -> bytes:
    """MP4 with a good video, and a sound beside it whose table names the same bytes for every sample."""
    made = io.BytesIO()
    with av.open(io.BytesIO(moving(8, 25)), "r") as given, av.open(made, "w", format="mp4") as file:
        picture = file.add_stream_from_template(given.streams.video[0])
        sound = file.add_stream("aac", rate=48_000)
        for packet in given.demux(video=0):
            if packet.size:
                packet.stream = picture
                file.mux(packet)
        quiet = av.AudioFrame.from_ndarray(numpy.zeros((1, 1024), dtype=numpy.float32), format="fltp", layout="mono")
        quiet.sample_rate = 48_000
        file.mux([*sound.encode(quiet), *sound.encode(None)])
    return _overlapping(made.getvalue(), samples, size, of=b"soun")


def _overlapping(whole: bytes, samples: int, size: int, of: bytes = b"vide") -> bytes:
    made, at = b"", 0
    for kind, body in _boxes(whole):
        if kind == b"mdat":
            at = len(made) + 8
            made += _box(kind, body + bytes(size))
        else:
            made += _box(kind, _retold(body, at, samples, size, of) if kind == b"moov" else body)
    return made


def _retold(body: bytes, at: int, samples: int, size: int, of: bytes) -> bytes:
    tables = {
        b"stsz": struct.pack(">III", 0, size, samples),
        b"stco": struct.pack(">II", 0, samples) + struct.pack(">I", at) * samples,
        b"stsc": struct.pack(">IIIII", 0, 1, 1, 1, 1),
        b"stts": struct.pack(">IIII", 0, 1, samples, 2),
    }
    made = b""
    for kind, inner in _boxes(body):
        if kind in (b"trak", b"mdia", b"minf", b"stbl") and (kind != b"trak" or of in inner):
            made += _box(kind, _retold(inner, at, samples, size, of))
        elif kind not in (b"stss", b"ctts", b"edts"):
            made += _box(kind, tables.get(kind, inner))
    return made


def _boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    while data:
        length = int.from_bytes(data[:4], "big")
        yield data[4:8], data[8:length]
        data = data[length:]


def _box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", 8 + len(body)) + kind + body
