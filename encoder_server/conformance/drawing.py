"""Specimens as files: seeded noise, so that every row of every medium is told from every other.

Place: `sweep` hands what is drawn here to the engine's pipeline, as a caller's upload would be.

Must never: draw two specimens alike, or differ between two runs or machines.
"""

from __future__ import annotations

import io
import wave
from fractions import Fraction

import av
import numpy as np
import numpy.typing as npt
from PIL import Image

from encoder_server.conformance.cases import Specimen
from encoder_server.engine.integers import scatter


def draw(specimen: Specimen) -> tuple[bytes, ...]:
    """Draw a picture, or the frames of a video, as PNG files: noise in blocks on two ramps, other noise in each; or all
    frames as one video file; or a sound as a WAV file: noise, and a tone, whose height and loudness change."""
    if specimen.rate:
        return (_wav(_loud(specimen), specimen.rate),)
    if specimen.filed:
        return (_film(specimen),)
    return tuple(_png(_painted(specimen, frame)) for frame in range(max(specimen.frames, 1)))


def blank(specimen: Specimen) -> tuple[bytes, ...]:
    """Give the same in grey, or silent, for a processor that is only asked for its grid."""
    if specimen.rate:
        return (_wav(np.zeros(specimen.samples, dtype=np.int64), specimen.rate),)
    return (_png(np.full((specimen.height, specimen.width, 3), 128, dtype=np.uint8)),) * max(specimen.frames, 1)


def _painted(specimen: Specimen, frame: int) -> npt.NDArray[np.uint8]:
    pixels = _noise(specimen, frame)
    if specimen.mark:
        height, width = max(1, specimen.height // 4), max(1, specimen.width // 4)
        corner = np.s_[:height, :width] if specimen.mark == "first" else np.s_[-height:, -width:]
        pixels[corner] = 255 - pixels[corner]
    first, behind = specimen.repainted or (0, 0)
    return 255 - pixels if first <= frame < behind else pixels


def _noise(specimen: Specimen, frame: int) -> npt.NDArray[np.uint8]:
    width, height = specimen.width, specimen.height
    # A processor scales large pictures down: their blocks must not average out.
    block = max(4, max(width, height) // 64)
    down, across = -(-height // block), -(-width // block)
    own = ((specimen.frames * 1024 + frame) * 1024 + specimen.seed) << 32 | width << 16 | height
    cells = np.arange(down * across * 3, dtype=np.uint64)
    noise = (scatter(own, cells) >> np.uint64(57)).astype(np.uint8).reshape(down, across, 3)
    pixels = noise.repeat(block, axis=0)[:height].repeat(block, axis=1)[:, :width]
    ramp = [np.arange(side) * 63 // max(side - 1, 1) for side in (height, width)]
    pixels += (ramp[0][:, None] + ramp[1][None, :]).astype(np.uint8)[..., None]
    return pixels


def _loud(specimen: Specimen) -> npt.NDArray[np.int64]:
    at = np.arange(specimen.samples, dtype=np.int64)
    own = (specimen.seed << 44) + (specimen.rate << 24) + specimen.samples
    part = max(1, specimen.rate // 20)
    parts = scatter(own, np.arange(-(-specimen.samples // part), dtype=np.uint64)).repeat(part)[: specimen.samples]
    height, gain = (parts >> np.uint64(52)).astype(np.int64) + 100, (parts & np.uint64(7)).astype(np.int64) + 1
    tone = np.abs(at * height * 65536 // specimen.rate % 65536 - 32768) - 16384
    noise = (scatter(own + 1, at.astype(np.uint64)) >> np.uint64(50)).astype(np.int64) - 8192
    samples: npt.NDArray[np.int64] = (tone + noise) * gain // 8
    first, behind = specimen.repainted or (0, 0)
    samples[first:behind] = 0
    return samples


def _wav(samples: npt.NDArray[np.int64], rate: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(samples.astype("<i2").tobytes())
    return file.getvalue()


def _film(specimen: Specimen) -> bytes:
    """Write frames that are pictures each, so that what is painted over in one is in no other."""
    made = io.BytesIO()
    with av.open(made, "w", format="matroska") as file:
        stream = file.add_stream("mjpeg", rate=Fraction(specimen.fps).limit_denominator(1000))
        stream.width, stream.height, stream.pix_fmt = specimen.width, specimen.height, "yuvj420p"
        for at in range(specimen.frames):
            packet = av.Packet(_jpeg(_painted(specimen, at)))
            packet.pts = packet.dts = round(1000 * at / specimen.fps)
            packet.time_base, packet.is_keyframe, packet.stream = Fraction(1, 1000), True, stream
            file.mux(packet)
    return made.getvalue()


def _jpeg(pixels: npt.NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="JPEG", quality=95, subsampling="4:2:0")
    return file.getvalue()


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG", compress_level=0)
    return file.getvalue()
