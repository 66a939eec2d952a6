"""Clips: which container a video file comes in, told by its first bytes, and whether all of it is there.

Place: called by `media` in the front, and by the engine, which has FFmpeg read that one container and nothing else.
The front reads no more than the lengths of the outermost boxes, and how many samples their tables say there are: FFmpeg
makes an index of so many before it reads one, gigabytes for a file of a kilobyte. What else is in them is for a parser
in native code, and the engine is the wall around it: it holds the header to the limits before it decodes a frame, and
again while it decodes.

Must never: import a native library, take a file that was cut short for whole, or know a container that may name other
files (playlists, HLS, DASH, concat).
"""

from __future__ import annotations

import struct

FORMATS = ("MP4", "MOV", "WebM", "Matroska", "AVI")
CODECS = ("h264", "hevc", "vp8", "vp9", "av1", "mpeg4", "mjpeg")
_PIXELS_PER_BYTE = 16
_LEAST_COST = 4 * 2**20
_MOST_BOXES = 100_000
_FIRST_BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")
# Where a table says how many samples it has, after its name; a file of whole samples has fewer than half its bytes.
_COUNTS = {b"stsz": 12, b"stz2": 12, b"trun": 8}
_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"


class ClipError(Exception):
    """A file is no video that is taken here. The text is ours."""


def check(content: bytes | memoryview) -> str:
    """Return FFmpeg's name of the container (`mov`, `matroska` or `avi`); raises ClipError."""
    data = memoryview(content)
    try:
        head = bytes(data[:12])
        if head[4:8] in _FIRST_BOXES:
            name, end = "mov", _end_of_boxes(data)
        elif head[:4] == _EBML:
            name, end = "matroska", _end_of_segment(data)
        elif head[:4] == b"RIFF" and head[8:] == b"AVI ":
            name, end = "avi", 8 + struct.unpack_from("<I", data, 4)[0]
        else:
            raise ClipError(f"not a video in a known format ({', '.join(FORMATS)})")
    except (struct.error, IndexError):
        raise ClipError("the video is cut short") from None
    if end > len(data):
        raise ClipError("the video is cut short")
    return name


def cost(length: int) -> int:
    """Return the share of a batch, in pixels, of a file of so many bytes: what it decodes to is not known here.

    A byte makes some dozens of pixels. No file is cheaper than a batch of several callers may be, so that it delays
    nobody's beside its own: a small one may have much to decode of which little is taken.
    """
    return max(length * _PIXELS_PER_BYTE, _LEAST_COST)


def _end_of_boxes(data: memoryview) -> int:
    at = samples = 0
    for _ in range(_MOST_BOXES):
        if at >= len(data):
            break
        length = struct.unpack_from(">I", data, at)[0]
        if length == 1:
            length = struct.unpack_from(">Q", data, at + 8)[0]
        end = at + max(length, 8) if length else len(data)  # 0: to the end of the file.
        if bytes(data[at + 4 : at + 8]) != b"mdat":
            samples += _samples(bytes(data[at:end]))
            if samples > len(data) // 2:
                raise ClipError("the video is damaged: it says that it has more samples than fit into it")
        at = end
    return at


def _samples(box: bytes) -> int:
    """Return how many samples the tables in `box` have, at whatever depth."""
    if b"cmov" in box:
        raise ClipError("the video's header is compressed, which is not taken")
    count = 0
    for name, offset in _COUNTS.items():
        at = box.find(name)
        while at >= 0:
            count += int.from_bytes(box[at + offset : at + offset + 4], "big")
            at = box.find(name, at + 4)
    return count


def _end_of_segment(data: memoryview) -> int:
    at = 4
    length, at = _number(data, at)
    at += length or 0
    if data[at : at + 4] != _SEGMENT:
        return len(data)  # What lies between is FFmpeg's to judge.
    length, at = _number(data, at + 4)
    return len(data) if length is None else at + length


def _number(data: memoryview, at: int) -> tuple[int | None, int]:
    """Return an EBML number, None where it says that it is not known, and where the next byte is."""
    first = data[at]
    width = 9 - first.bit_length() if first else 1
    value = int.from_bytes(data[at : at + width], "big") & (1 << 7 * width) - 1
    return (None if value == (1 << 7 * width) - 1 else value), at + width
