"""Sounds: what an audio file's header says, read here byte by byte and without a sample decoded.

Place: called by `media` in the front, which must not run a native parser over hostile bytes, and again by the engine
before it decodes, so that both hold a file to the same rules:

    WAV    PCM of 8 to 32 bits, float of 32 or 64, A-law or mu-law; a length that a stream left open is what is there
    FLAC   one that says how long it is
    OGG    one stream of Vorbis or Opus, whole: its last page says so

Must never: decode, import a native library, look further than the file, or take a file that was cut short for whole.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

FORMATS = ("WAV", "FLAC", "OGG")
LOWEST_RATE, HIGHEST_RATE = 8_000, 192_000
MOST_CHANNELS = 8
_MOST_CHUNKS = 64
# From here on a WAV's length is what a program writes that cannot go back to fill it in.
_LEFT_OPEN = 0x7FFF_0000
_PCM, _FLOAT, _A_LAW, _MU_LAW, _EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
_BITS = {_PCM: (8, 16, 24, 32), _FLOAT: (32, 64), _A_LAW: (8,), _MU_LAW: (8,)}
_OPUS_RATE = 48_000
_OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)
_PAGE_HEAD, _FIRST_PAGE, _LAST_PAGE = 27, 2, 4
_NO_GRANULE = 2**64 - 1


class SoundError(Exception):
    """A file is no sound that is taken here. The text is ours, and says which rule it breaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """`samples` are those of one channel, never 0, `rate` of them in a second."""

    samples: int
    rate: int
    channels: int

    @property
    def seconds(self) -> float:
        """How long it says that it lasts."""
        return self.samples / self.rate


def read(content: bytes | memoryview) -> Header:
    """Return what the header of an audio file says; raises SoundError."""
    data = memoryview(content)
    try:
        head = bytes(data[:12])
        if head[:4] == b"RIFF" and head[8:] == b"WAVE":
            header = _wav(data)
        elif head[:4] == b"fLaC":
            header = _flac(data)
        elif head[:4] == b"OggS":
            header = _ogg(data)
        else:
            raise SoundError(f"not a sound in a known format ({', '.join(FORMATS)})")
    except (struct.error, IndexError):
        raise SoundError("the sound is cut short in its header") from None
    if not LOWEST_RATE <= header.rate <= HIGHEST_RATE:
        raise SoundError(f"{header.rate} samples a second; the limits are {LOWEST_RATE} and {HIGHEST_RATE}")
    if not 1 <= header.channels <= MOST_CHANNELS:
        raise SoundError(f"{header.channels} channels; the limit is {MOST_CHANNELS}")
    return header


def _wav(data: memoryview) -> Header:
    at, layout = 12, None
    for _ in range(_MOST_CHUNKS):
        name, length = bytes(data[at : at + 4]), struct.unpack_from("<I", data, at + 4)[0]
        at += 8
        if name == b"fmt ":
            layout = _wav_layout(data[at : at + length])
        elif name == b"data" and layout is not None:
            rate, channels, width = layout
            there = len(data) - at
            if length < _LEFT_OPEN and length > there:
                raise SoundError("the sound is cut short")
            if min(length, there) < width:
                raise SoundError("the sound has no samples")
            return Header(samples=min(length, there) // width, rate=rate, channels=channels)
        at += length + length % 2
    raise SoundError("a WAV without samples among its first chunks")


def _wav_layout(chunk: memoryview) -> tuple[int, int, int]:
    """Return the rate, the channels, and the bytes that one sample of all of them takes."""
    code, channels, rate, _, width, bits = struct.unpack_from("<HHIIHH", chunk)
    if code == _EXTENSIBLE:
        code = struct.unpack_from("<H", chunk, 24)[0]
    if bits not in _BITS.get(code, ()) or width != channels * bits // 8 or width == 0:
        raise SoundError("a WAV of a coding that is not taken (PCM, float, A-law and mu-law are)")
    return rate, channels, width


def _flac(data: memoryview) -> Header:
    first, *rest = struct.unpack_from(">B3B", data, 4)
    if first & 0x7F != 0 or int.from_bytes(rest, "big") != 34:
        raise SoundError("a FLAC that does not begin with what it holds")
    packed = struct.unpack_from(">Q", data, 18)[0]
    samples = packed & (2**36 - 1)
    if not samples:
        raise SoundError("a FLAC that does not say how long it is")
    return Header(samples=samples, rate=packed >> 44, channels=(packed >> 41 & 7) + 1)


def _ogg(data: memoryview) -> Header:
    codec: _Codec | None = None
    at = serial = end = 0
    while len(data) - at >= _PAGE_HEAD:
        mark, version, flags, granule, stream, _, _, segments = struct.unpack_from("<4sBBQIIIB", data, at)
        if mark != b"OggS" or version != 0:
            raise SoundError("an OGG with bytes between its pages")
        body = at + _PAGE_HEAD + segments
        after = body + sum(data[at + _PAGE_HEAD : body])
        if after > len(data):
            break
        if codec is None:
            codec, serial = _ogg_codec(data[body:after]), stream
        elif flags & _FIRST_PAGE or stream != serial:
            raise SoundError("an OGG of more than one stream")
        end = end if granule == _NO_GRANULE else granule
        at = after
        if flags & _LAST_PAGE:
            samples = max(end - codec.skipped, 0) * codec.rate // codec.clock
            if not samples:
                raise SoundError("the sound has no samples")
            return Header(samples=samples, rate=codec.rate, channels=codec.channels)
    raise SoundError("the sound is cut short")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Codec:
    """`clock` is the rate in which an OGG's pages count, `skipped` how much of that is before the first sample."""

    rate: int
    channels: int
    clock: int
    skipped: int


def _ogg_codec(packet: memoryview) -> _Codec:
    name = bytes(packet[:8])
    if name[:7] == b"\x01vorbis":
        channels, rate = struct.unpack_from("<BI", packet, 11)
        return _Codec(rate=rate, channels=channels, clock=max(rate, 1), skipped=0)
    if name == b"OpusHead":
        channels, skipped, rate = struct.unpack_from("<BHI", packet, 9)
        known = rate if rate in _OPUS_RATES else _OPUS_RATE
        return _Codec(rate=known, channels=channels, clock=_OPUS_RATE, skipped=skipped)
    raise SoundError("an OGG of a coding that is not taken (Vorbis and Opus are)")
