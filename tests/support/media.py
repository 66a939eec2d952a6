"""Real media, made small: sound and video files of many forms, and the limits that they are held to."""

from __future__ import annotations

import base64
import io
import logging
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import av
import numpy
import numpy.typing as npt
import soundfile
from PIL import Image

from encoder_server.settings import Limits

logging.getLogger("libav").setLevel(logging.CRITICAL)

_LIMITS = Limits(
    max_in_flight=1,
    max_in_flight_bytes=2**20,
    max_body_bytes=2**20,
    max_items=16,
    max_pixels=1_000_000,
    max_request_pixels=4_000_000,
    max_decoded_pixels=100_000_000,
    max_frames=100,
    max_audio_seconds=60,
    max_video_seconds=60,
    deadline_seconds=1,
)


_PIECE = 1 << 15


def limits(**changes: Any) -> Limits:
    """Limits that small media keep, but for `changes`."""
    return replace(_LIMITS, **changes)


def tone(samples: int, rate: int = 16_000, hertz: float = 440.0) -> npt.NDArray[numpy.float32]:
    """A sine of half the full scale."""
    return (0.5 * numpy.sin(2 * numpy.pi * hertz * numpy.arange(samples) / rate)).astype(numpy.float32)


def sound(
    samples: npt.NDArray[numpy.float32], rate: int = 16_000, form: str = "WAV", coding: str | None = None
) -> bytes:
    """A file of these samples: (samples,) or (samples, channels)."""
    file = io.BytesIO()
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    with soundfile.SoundFile(file, "w", rate, channels, subtype=coding, format=form) as written:
        # In pieces: the library's Vorbis writer keeps what it is given on its stack.
        for at in range(0, len(samples), _PIECE):
            written.write(samples[at : at + _PIECE])
    return file.getvalue()


def clip(
    shades: Sequence[int] = (0, 80, 160),
    *,
    width: int = 64,
    height: int = 48,
    form: str = "mp4",
    codec: str = "libx264",
    fps: int = 10,
    times: Sequence[int] | None = None,
    **options: str,
) -> bytes:
    """A video file with a plain grey frame for each shade; `times` are in thousandths of a second."""
    file = io.BytesIO()
    with av.open(file, "w", format=form, options=options) as container:
        stream = container.add_stream(codec, rate=fps)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height = width, height
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        if times is not None:
            stream.time_base = stream.codec_context.time_base = Fraction(1, 1000)
        for at, shade in enumerate(shades):
            frame = av.VideoFrame.from_ndarray(numpy.full((height, width, 3), shade, numpy.uint8), format="rgb24")
            if times is not None:
                frame.pts, frame.time_base = times[at], Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return file.getvalue()


def frame(width: int = 56, height: int = 56, shade: int = 0, form: str = "PNG") -> bytes:
    """A plain picture file."""
    file = io.BytesIO()
    Image.new("RGB", (width, height), (shade, 0, 0)).save(file, form)
    return file.getvalue()


def text(content: bytes) -> str:
    """Base64, as a request has it."""
    return base64.b64encode(content).decode()
