"""The golden probe: fixed synthetic media, and how each fared on its way through the whole pipeline.

Place: run once before an engine says hello and again on order; its counts and grids are exact parts of the
identity, its embeddings make the signature.

Must never: differ between two runs, processes or machines, or judge by other rules than the front's check.
"""

from __future__ import annotations

import io
import wave
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from encoder_server.engine.encode import Embedding
from encoder_server.engine.integers import scatter
from encoder_server.engine.messages import Declared, ProbeItem, Promise
from encoder_server.engine.preprocess import Medium
from encoder_server.size import Size

Result = Literal["ok", "count", "width", "dtype", "nonfinite", "layout"]

# With patches of 14 merged by 2: merged grids of 2x2, 4x4, 3x5 (odd), 2x6 (turned by another factor), 5x7. Videos: one
# frame, two, and odd numbers of them, at a known rate and at none. Audio: shorter than a step and odd, a second and a
# little, resampled, and just over the half minute at which encoders cut.
GOLDEN = (
    Size(modality="image", width=56, height=56),
    Size(modality="image", width=112, height=112),
    Size(modality="image", width=140, height=84),
    Size(modality="image", width=61, height=173),
    Size(modality="image", width=200, height=150),
    Size(modality="video", width=56, height=56, frames=1),
    Size(modality="video", width=140, height=84, frames=2, fps=2.0),
    Size(modality="video", width=61, height=173, frames=5, fps=2.0),
    Size(modality="audio", samples=7_999, rate=16_000),
    Size(modality="audio", samples=16_160, rate=16_000),
    Size(modality="audio", samples=110_251, rate=44_100),
    Size(modality="audio", samples=481_600, rate=16_000),
)
_TONE = 440


def medium(size: Size, index: int) -> Medium:
    """Make the synthetic medium of this size: a PNG file, a list of them, or a WAV file."""
    if size.modality == "video":
        pixels = _draw(size)
        frames = tuple(_png(np.roll(pixels, 5 * at, axis=1), compress_level=0) for at in range(size.frames))
        return Medium(index=index, modality=size.modality, frames=frames, fps=size.fps or None)
    return Medium(index=index, modality=size.modality, data=synthetic(size))


# Never encoded, for a large picture costs what a hundred small ones do: what the processor alone promises for them. A
# limit of pixels, a rule of rounding, of tiles or of frames that the code has, and no setting tells, shows in these.
PROMISED = (
    Size(modality="image", width=20, height=28),
    Size(modality="image", width=1111, height=37),
    Size(modality="image", width=777, height=1001),
    Size(modality="image", width=1600, height=1200),
    Size(modality="image", width=2048, height=2048),
    Size(modality="video", width=84, height=56, frames=65, fps=30.0),
    Size(modality="audio", samples=960_321, rate=16_000),
)
# Of so many frames at so many a second, which ones an encoder wants: another rule of choosing may keep every count.
CHOSEN = ((900, 29.97), (7201, 24.0))


def plain(size: Size, index: int) -> Medium:
    """Make a medium of this size, a picture in black: for what depends on the size alone."""
    if size.modality != "image":
        return medium(size, index)
    black = np.zeros((size.height, size.width, 3), dtype=np.uint8)
    return Medium(index=index, modality=size.modality, data=_png(black, compress_level=1))


def synthetic(size: Size) -> bytes:
    """Make the file of this size, of a picture or a sound: PNG or WAV."""
    return _wav(size) if size.modality == "audio" else _png(_draw(size), compress_level=1)


def _draw(size: Size) -> npt.NDArray[np.uint8]:
    """Draw the picture of this size: two ramps and noise in blocks of 4."""
    y, x = np.mgrid[0 : size.height, 0 : size.width].astype(np.uint64)
    across = x * np.uint64(63) // np.uint64(max(size.width - 1, 1))
    down = y * np.uint64(63) // np.uint64(max(size.height - 1, 1))
    block = (y // np.uint64(4)) * np.uint64(size.width) + x // np.uint64(4)
    channels = [
        across + down + (scatter(size.width * 65536 + size.height + channel, block) >> np.uint64(57))
        for channel in range(3)
    ]
    return np.stack(channels, axis=-1).astype(np.uint8)


def _png(pixels: npt.NDArray[np.uint8], *, compress_level: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG", compress_level=compress_level)
    return file.getvalue()


def _wav(size: Size) -> bytes:
    """Sound for so many samples: a triangle wave, ever higher, and noise; in whole numbers, the same everywhere."""
    at = np.arange(size.samples, dtype=np.int64)
    phase = at * (_TONE + at // 64) * 65536 // size.rate % 65536
    noise = (scatter(size.samples, at.astype(np.uint64)) >> np.uint64(52)).astype(np.int64) - 2048
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(size.rate)
        sound.writeframes((np.abs(phase - 32768) // 2 - 8192 + noise).astype("<i2").tobytes())
    return file.getvalue()


def judge(
    sizes: Sequence[Size],
    promises: Sequence[Promise],
    embeddings: Sequence[Embedding],
    declared: Mapping[str, Declared],
) -> tuple[ProbeItem, ...]:
    """Give a ProbeItem for each of `sizes`; promises and embeddings refer to them by index."""
    promised = {promise.index: promise for promise in promises}
    produced = {embedding.index: embedding for embedding in embeddings}
    items = []
    for index, size in enumerate(sizes):
        promise, embedding = promised.get(index), produced.get(index)
        items.append(
            ProbeItem(
                index=index,
                **asdict(size),
                grid=None if promise is None else promise.grid,
                promised=None if promise is None else promise.tokens,
                produced=None if embedding is None else embedding.rows.shape[0],
                result=_result(promise, embedding, declared[size.modality]),
            )
        )
    return tuple(items)


def _result(promise: Promise | None, embedding: Embedding | None, declared: Declared) -> Result:
    if promise is None or embedding is None:
        return "layout"
    rows, width = embedding.rows.shape
    if rows != promise.tokens:
        return "count"
    if width != declared.width:
        return "width"
    if embedding.dtype != declared.dtype:
        return "dtype"
    return "ok" if embedding.finite else "nonfinite"
