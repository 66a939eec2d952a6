"""Families of audio over HTTP, with a window and without: served by the real engine, and asked with real files."""

from __future__ import annotations

import base64
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import pytest_asyncio

from encoder_server.checkpoint import make
from encoder_server.engine.pipeline import Pipeline
from tests.http.under_test import Answer, Checkpoint, Server, serving
from tests.support.media import sound, text
from tests.support.sounds import speech

ENGINE = (sys.executable, "-m", "encoder_server.engine")
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(400)]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["qwen3_omni", "whisper"])
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


async def test_a_sound_is_counted_after_it_has_the_encoders_rate(served: tuple[str, Path, Server]) -> None:
    _, folder, server = served
    files = [sound(speech(rate * 2).samples, rate) for rate in (8_000, 16_000)]
    answer = await server.encode({"items": [item(file) for file in files]})
    assert len({each["tokens"] for each in answer.json["items"]}) == 1
    pipeline = Pipeline.load(folder)
    for file, made in zip(files, rows(answer), strict=True):
        assert numpy.abs(made - pipeline.rows(file, "audio")).max() < 2e-5


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
