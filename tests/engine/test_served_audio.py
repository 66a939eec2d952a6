"""Families of audio over HTTP, with a window and without: served by the real engine, and asked with real files."""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import pytest_asyncio
import soundfile

from encoder_server.checkpoint import make
from encoder_server.encoders import Sound
from encoder_server.engine.pipeline import Pipeline
from encoder_server.size import Size
from tests.http.under_test import Answer, Checkpoint, Server, serving
from tests.support.media import sound, text
from tests.support.sounds import FAMILIES, RATE, SoundLibrary, speech

# Half an FFT is mirrored at either end; and two convolutions' rows are pooled by twos.
LEAST = {"qwen3_omni": 201, "qwen2_audio": 321}
ENGINE = (sys.executable, "-m", "encoder_server.engine")
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(400)]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=FAMILIES)
async def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[str, Path, Server]]:
    """A family's name, its checkpoint, and a server of it."""
    folder = tmp_path_factory.mktemp(request.param)
    made = folder / "model"
    make(made, seed=7, family=request.param)
    async with serving(folder, Checkpoint(made), engine=ENGINE, seconds=200) as server:
        yield request.param, made, server


def item(content: bytes) -> dict[str, Any]:
    return {"modality": "audio", "data": text(content)}


def rows(answer: Answer) -> list[Any]:
    assert answer.status == 200, answer.body
    return [
        numpy.frombuffer(base64.b64decode(each["data"]), "<f4").reshape(each["shape"]) for each in answer.json["items"]
    ]


async def test_sounds_of_any_length_and_form_have_the_librarys_rows(served: tuple[str, Path, Server]) -> None:
    family, folder, server = served
    sounds = [speech(samples, seed) for seed, samples in enumerate((641, 16_000, 48_161, 320_001))]
    files = [sound(each.samples, RATE, "FLAC" if at % 2 else "WAV", "PCM_16") for at, each in enumerate(sounds)]
    answer = await server.encode({"items": [item(file) for file in files]})
    library = SoundLibrary(folder, family)
    for file, made, told in zip(files, rows(answer), answer.json["items"], strict=True):
        samples, rate = soundfile.read(io.BytesIO(file), dtype="float32")
        truth = library.rows(Sound(samples=samples, rate=rate))
        assert made.shape == truth.shape == (told["tokens"], truth.shape[1])
        assert numpy.abs(made - truth).max() < 2e-5


async def test_a_sound_is_counted_after_it_has_the_encoders_rate(served: tuple[str, Path, Server]) -> None:
    _, folder, server = served
    files = [sound(speech(rate * 2).samples, rate) for rate in (8_000, 16_000)]
    answer = await server.encode({"items": [item(file) for file in files]})
    assert len({each["tokens"] for each in answer.json["items"]}) == 1
    pipeline = Pipeline.load(folder)
    for file, made in zip(files, rows(answer), strict=True):
        assert numpy.abs(made - pipeline.rows(file, "audio")).max() < 2e-5


async def test_what_a_family_does_not_take_is_the_callers_with_the_limit(served: tuple[str, Path, Server]) -> None:
    family, _, server = served
    files = [sound(speech(samples).samples, RATE, "FLAC") for samples in (1600, 35 * RATE)]
    long = await server.encode({"items": [item(file) for file in files]})
    if family == "qwen3_omni":
        assert [each["tokens"] for each in long.json["items"]] == [2, 455]
    else:
        assert (long.status, long.code) == (400, "limit_exceeded")
        assert long.message == "items[1]: 35 s of audio; the limit is 30 s"
    short = await server.encode({"items": [item(sound(speech(1).samples))]})
    if family == "whisper":
        assert [each["tokens"] for each in short.json["items"]] == [1]
    else:
        assert (short.status, short.code) == (400, "bad_media")
        assert short.message == f"items[0]: 1 samples at 16000 Hz: one token takes {LEAST[family]}"


async def test_a_picture_is_no_modality_of_an_audio_tower(served: tuple[str, Path, Server]) -> None:
    answer = await served[2].encode({"items": [{"modality": "image", "data": text(b"no matter")}]})
    assert answer.status == 400


async def test_its_probe_passes_in_its_own_modality_alone(served: tuple[str, Path, Server]) -> None:
    family, folder, _ = served
    measured = Pipeline.load(folder).measure()
    assert [(each.modality, each.result) for each in measured.probe] == [("audio", "ok")] * (
        4 if family == "qwen3_omni" else 3
    )
    assert measured.signature is not None


async def test_the_stated_limit_of_audio_is_the_encoders_window_where_it_has_one(
    served: tuple[str, Path, Server],
) -> None:
    family, _, server = served
    limits = (await server.get("/v1/limits")).json
    assert limits["byModality"]["audio"]["maxSeconds"] == (300 if family == "qwen3_omni" else 30)


async def test_a_start_warns_of_nothing_that_the_encoder_says_it_does_not_take(
    served: tuple[str, Path, Server], caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = Pipeline.load(served[1])
    measured, again = pipeline.measure(), pipeline.probe([Size(modality="audio", samples=16_000, rate=16_000)])
    assert len(again[0]) == len(measured.probe) + 1
    assert [record.message for record in caplog.records if record.name.startswith("encoder_server")] == []
