"""Bytes of a sound to samples: any accepted file as one array, whatever it came in.

Place: first stage of the engine, beside `decode`; `preprocess` takes what comes out. The rules for a sound:
WAV, FLAC and OGG as `sounds` has them; several channels become their mean; any rate becomes the encoder's own (soxr,
HQ) before anything is counted; every sample is finite, and none beyond +-32768, so that what a model makes of it is.

Must never: let a library's own text out, hold more than one block of a file's own samples, or take a file for whole
that has fewer samples than it says.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from encoder_server import sounds
from encoder_server.encoders import Sound
from encoder_server.engine.bounds import Bounds
from encoder_server.engine.decode import BadMediaError
from encoder_server.size import Size

_BLOCK = 1 << 16
_LOUDEST = 32_768.0

_Samples = npt.NDArray[np.float32]


def decode_sound(data: bytes | memoryview, *, rate: int, bounds: Bounds) -> tuple[Sound, Size]:
    """Decode `data`, an audio file, to mono at `rate` samples a second; raises BadMediaError.

    The size is the file's own: samples and rate before they were changed.
    """
    try:
        header = sounds.read(data)
    except sounds.SoundError as wrong:
        raise BadMediaError(str(wrong)) from wrong
    if header.seconds > bounds.max_audio_seconds:
        raise BadMediaError(f"{header.seconds:.1f} s of audio; the limit is {bounds.max_audio_seconds:g} s")
    try:
        count, samples = _resampled(_blocks(data, header, bounds.max_audio_seconds), header.rate, rate)
    except (BadMediaError, MemoryError):
        raise
    except Exception as error:
        raise BadMediaError("the sound is damaged or cut short") from error
    if count != header.samples:
        raise BadMediaError(f"the sound is damaged or cut short: it has {count} of {header.samples} samples")
    if not samples.size:
        raise BadMediaError("the sound has no samples")
    return Sound(samples=samples, rate=rate), Size(modality="audio", samples=count, rate=header.rate)


def _blocks(data: bytes | memoryview, header: sounds.Header, max_seconds: float) -> Iterator[_Samples]:
    """Give the file's samples in blocks, mono, at its own rate."""
    most = int(max_seconds * header.rate)
    count = 0
    with soundfile.SoundFile(io.BytesIO(data)) as file:
        if (file.samplerate, file.channels) != (header.rate, header.channels):
            raise BadMediaError("the sound is damaged: its header contradicts itself")
        while len(block := file.read(_BLOCK, dtype="float32", always_2d=True)):
            count += len(block)
            if count > most:
                raise BadMediaError(f"more than {max_seconds:g} s of audio; the limit is {max_seconds:g} s")
            # Not a number where one sample is none, and so not at most the loudest.
            if not np.abs(block).max() <= _LOUDEST:
                raise BadMediaError(f"the sound has samples that are not finite, or beyond {_LOUDEST:g}")
            yield block.mean(axis=1)


def _resampled(blocks: Iterator[_Samples], given: int, wanted: int) -> tuple[int, _Samples]:
    """Return how many samples there were, and them at the wanted rate."""
    count, parts = 0, []
    # Always as a stream, so that one content is one array however it is cut into blocks.
    stream = None if given == wanted else soxr.ResampleStream(given, wanted, 1, dtype="float32", quality="HQ")
    for block in blocks:
        count += len(block)
        parts.append(block if stream is None else stream.resample_chunk(block))
    if stream is not None:
        parts.append(stream.resample_chunk(np.zeros(0, dtype=np.float32), last=True))
    return count, np.concatenate(parts) if parts else np.zeros(0, dtype=np.float32)
