"""What becomes of a sound file: one array at the encoder's rate, or our own words for what cannot be decoded."""

from __future__ import annotations

import contextlib
import io
import struct
from dataclasses import replace
from typing import Any

import numpy
import numpy.typing as npt
import pytest
import soundfile

from encoder_server.encoders import Sound
from encoder_server.engine.bounds import DEFAULTS
from encoder_server.engine.decode import BadMediaError
from encoder_server.engine.decode_sound import decode_sound
from tests.support.media import sound, tone

RATE = 16_000


def decode(content: bytes, rate: int = RATE, seconds: float = 60) -> Sound:
    return decode_sound(content, rate=rate, bounds=replace(DEFAULTS, max_audio_seconds=seconds))[0]


def refusal(content: bytes, seconds: float = 60) -> str:
    with pytest.raises(BadMediaError) as caught:
        decode(content, seconds=seconds)
    return str(caught.value)


def off_by(left: npt.NDArray[numpy.float32], right: npt.NDArray[numpy.floating[Any]]) -> float:
    return float(numpy.abs(left - right).max())


@pytest.mark.parametrize(
    ("form", "coding", "most"),
    [
        ("WAV", "PCM_U8", 0.01),
        ("WAV", "PCM_16", 1e-4),
        ("WAV", "PCM_24", 1e-6),
        ("WAV", "PCM_32", 1e-6),
        ("WAV", "FLOAT", 0),
        ("WAV", "DOUBLE", 0),
        ("WAV", "ULAW", 0.02),
        ("WAV", "ALAW", 0.02),
        ("WAVEX", "PCM_16", 1e-4),
        ("FLAC", "PCM_16", 1e-4),
        ("FLAC", "PCM_24", 1e-6),
        ("OGG", "VORBIS", 0.1),
        ("OGG", "OPUS", 0.2),
    ],
)
def test_every_listed_form_gives_the_samples_that_were_written(form: str, coding: str, most: float) -> None:
    made = decode(sound(tone(24_001), RATE, form, coding))
    assert (str(made.samples.dtype), made.samples.shape, made.rate) == ("float32", (24_001,), RATE)
    # Opus needs some hundredths of a second to find its way in and out.
    middle = slice(2_000, -2_000)
    assert off_by(made.samples[middle], tone(24_001)[middle]) <= most


def test_several_channels_become_their_mean() -> None:
    left, right = tone(8_000), tone(8_000, hertz=300)
    stereo = decode(sound(numpy.stack([left, right], axis=1), coding="FLOAT"))
    assert off_by(stereo.samples, (left + right) / 2) < 1e-7
    six = decode(sound(numpy.stack([left] * 6, axis=1), coding="FLOAT"))
    assert off_by(six.samples, left) < 1e-6


@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 24_000, 44_100, 48_000, 192_000])
def test_any_rate_becomes_the_encoders_own_before_anything_is_counted(rate: int) -> None:
    made = decode(sound(tone(rate * 2, rate), rate, coding="FLOAT"))
    assert made.samples.shape == (2 * RATE,)
    middle = slice(1_000, -1_000)
    assert off_by(made.samples[middle], tone(2 * RATE)[middle]) < 0.01


def test_a_sound_longer_than_a_block_is_resampled_without_a_seam() -> None:
    made = decode(sound(tone(44_100 * 5, 44_100), 44_100, coding="FLOAT")).samples
    middle = slice(1_000, -1_000)
    assert off_by(made[middle], tone(5 * RATE)[middle]) < 0.01


def test_the_size_is_the_files_own() -> None:
    _, size = decode_sound(sound(tone(33_075, 22_050), 22_050), rate=RATE, bounds=DEFAULTS)
    assert (size.samples, size.rate, size.modality) == (33_075, 22_050, "audio")


def test_a_sound_of_no_samples_is_refused() -> None:
    assert "no samples" in refusal(sound(tone(0)))
    assert "no samples" in refusal(sound(tone(0), form="OGG"))


@pytest.mark.parametrize("wrong", [numpy.nan, numpy.inf, -numpy.inf, 1e30, 40_000.0])
def test_samples_that_are_not_finite_or_absurd_are_refused(wrong: float) -> None:
    samples = tone(100_000)
    samples[99_990] = wrong
    assert "not finite, or beyond 32768" in refusal(sound(samples, coding="FLOAT"))
    assert "not finite, or beyond 32768" in refusal(sound(numpy.stack([samples, -samples], axis=1), coding="FLOAT"))


@pytest.mark.parametrize("form", ["WAV", "FLAC", "OGG"])
@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_short_is_refused_in_our_own_words(form: str, share: float) -> None:
    noise = numpy.random.default_rng(1).uniform(-0.5, 0.5, 40_000).astype(numpy.float32)
    content = sound(noise, form=form)
    found = refusal(content[: int(len(content) * share)])
    assert "cut short" in found or "not a sound" in found


def test_the_seconds_limit_is_named_and_the_last_allowed_sample_passes() -> None:
    for form in ("WAV", "FLAC", "OGG"):
        content = sound(tone(2 * RATE), form=form)
        assert decode(content, seconds=2).samples.shape == (2 * RATE,)
        assert "the limit is 1.99 s" in refusal(content, seconds=1.99)


def test_a_length_that_a_stream_left_open_is_what_is_there_and_still_limited() -> None:
    content = bytearray(sound(tone(2 * RATE)))
    at = content.index(b"data") + 4
    content[at : at + 4] = b"\xff\xff\xff\xff"
    content[4:8] = b"\xff\xff\xff\xff"
    assert decode(bytes(content)).samples.shape == (2 * RATE,)
    assert "the limit is 1 s" in refusal(bytes(content), seconds=1)


def test_a_length_that_says_more_than_there_is_is_a_file_cut_short() -> None:
    content = bytearray(sound(tone(2 * RATE)))
    at = content.index(b"data") + 4
    struct.pack_into("<I", content, at, 0x7000_0000)
    assert "cut short" in refusal(bytes(content))


def test_a_flac_that_does_not_say_how_long_it_is_is_refused() -> None:
    content = bytearray(sound(tone(2 * RATE), form="FLAC"))
    packed = struct.unpack_from(">Q", content, 18)[0]
    struct.pack_into(">Q", content, 18, packed & ~(2**36 - 1))
    assert refusal(bytes(content)) == "a FLAC that does not say how long it is"


def test_a_flac_that_says_less_than_there_is_is_as_long_as_it_says() -> None:
    content = bytearray(sound(tone(2 * RATE), form="FLAC"))
    packed = struct.unpack_from(">Q", content, 18)[0]
    struct.pack_into(">Q", content, 18, packed & ~(2**36 - 1) | RATE)
    assert decode(bytes(content)).samples.shape == (RATE,)


@pytest.mark.parametrize("form", ["AIFF", "AU", "W64", "CAF", "MP3", "RF64"])
def test_a_form_that_is_not_listed_is_no_sound(form: str) -> None:
    assert refusal(sound(tone(8_000), form=form)).startswith("not a sound in a known format")


@pytest.mark.parametrize("coding", ["MS_ADPCM", "IMA_ADPCM", "GSM610"])
def test_a_wav_of_a_coding_that_is_not_listed_is_refused(coding: str) -> None:
    assert "of a coding that is not taken" in refusal(sound(tone(8_000, 8_000), 8_000, coding=coding))


def test_rates_and_channels_have_limits() -> None:
    assert "4000 samples a second; the limits are 8000 and 192000" in refusal(sound(tone(4_000), 4_000))
    assert "384000 samples a second" in refusal(sound(tone(4_000), 384_000))
    assert "9 channels; the limit is 8" in refusal(sound(numpy.zeros((4_000, 9), numpy.float32)))


def test_an_ogg_of_two_streams_is_refused() -> None:
    content = sound(tone(8_000), form="OGG")
    assert decode(content).samples.size == 8_000
    chained = content.replace(b"OggS\x00\x04", b"OggS\x00\x00") + content
    assert "more than one stream" in refusal(chained)


def test_no_byte_of_a_header_makes_another_error() -> None:
    rng = numpy.random.default_rng(5)
    for form in ("WAV", "FLAC", "OGG"):
        whole = sound(tone(4_000), form=form)
        for _ in range(150):
            content = bytearray(whole)
            for at in rng.integers(0, min(len(whole), 200), 2):
                content[at] = rng.integers(0, 256)
            with contextlib.suppress(BadMediaError):
                assert numpy.isfinite(decode(bytes(content)).samples).all()


def test_one_content_is_one_array_however_the_library_reads_it() -> None:
    content = sound(tone(24_000), coding="FLOAT")
    read, _ = soundfile.read(io.BytesIO(content), dtype="float32")
    assert numpy.array_equal(decode(content).samples, read)


@pytest.mark.parametrize("coding", ["VORBIS", "OPUS"])
def test_a_long_sound_is_read_in_blocks_as_it_is_in_one(coding: str) -> None:
    noise = numpy.random.default_rng(2).normal(0, 0.1, 200_000).astype(numpy.float32)
    content = sound(noise, form="OGG", coding=coding)
    read, _ = soundfile.read(io.BytesIO(content), dtype="float32")
    assert numpy.array_equal(decode(content).samples, read)
