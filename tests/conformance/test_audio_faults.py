"""An audio tower used as its library lets one use it, with one thing wrong each: the sweep names it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from encoder_server.checkpoint import make
from encoder_server.conformance.audit import Audit
from encoder_server.conformance.findings import Kind
from encoder_server.conformance.sweep import Extent, Sweep
from encoder_server.conformance.watch import Watching
from encoder_server.encoders import Features, Sound, Source, extractors
from encoder_server.encoders.qwen3_omni import Qwen3OmniEncoder
from encoder_server.engine.bounds import DEFAULTS


class FillsWindows(Qwen3OmniEncoder):
    """Runs a whole batch at once: the last window of a short sound is filled up as far as its mates' are."""

    def _alike(self, features: Sequence[Features]) -> Any:
        yield list(range(len(features)))


class ExtractsTogether(Qwen3OmniEncoder):
    """Has the processor fill a batch up to its longest sound: the end of a shorter one is another."""

    def preprocess(self, media: Sequence[Sound]) -> list[Features]:
        own = super().preprocess(media)
        made = extractors.run(self._extractor, media, padding=True, truncation=False)
        return [
            replace(item, tensors={"input_features": features[:, : item.grid[0]]})
            for item, (features, _) in zip(own, made, strict=True)
        ]


class CutsAtHalfAMinute(Qwen3OmniEncoder):
    """Lets the processor cut what is longer than its window, and promises for all of it."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        return [rows[:390] for rows in super().encode(features)]


class PlaysBackwards(Qwen3OmniEncoder):
    """Puts the rows of a sound back to front."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        return [rows.flip(0) for rows in super().encode(features)]


class Deaf(Qwen3OmniEncoder):
    """Hears nothing: every sound of one length has the same rows."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        silent = {"input_features": torch.zeros(1)}
        quiet = [
            replace(item, tensors={**silent, "input_features": item.tensors["input_features"] * 0}) for item in features
        ]
        return super().encode(quiet)


FAULTS = [
    (FillsWindows, Kind.MATES),
    (ExtractsTogether, Kind.MATES),
    (CutsAtHalfAMinute, Kind.TRUNCATES),
    (PlaysBackwards, Kind.REVERSES),
    (Deaf, Kind.BLIND),
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audio") / "checkpoint"
    make(folder, seed=7, family="qwen3_omni")
    return folder


def sweep(folder: Path, family: type[Qwen3OmniEncoder]) -> Audit:
    torch.set_num_threads(1)
    encoder = family.load(Source(model=folder, processor=folder, device="cpu", dtype="auto"))
    extent = Extent(max_pixels=10_000, quick=True, seconds=300)
    return Sweep(Watching(encoder, bounds=DEFAULTS), extent, lambda text: None).run()


@pytest.mark.parametrize(("family", "kind"), FAULTS)
def test_each_fault_of_an_audio_tower_is_named_and_no_other(
    checkpoint: Path, family: type[Qwen3OmniEncoder], kind: Kind
) -> None:
    audit = sweep(checkpoint, family)
    assert not audit.good
    assert {found.kind for found in audit.findings if not found.note} == {kind}


def test_the_steps_of_a_sound_are_found_by_asking(checkpoint: Path) -> None:
    assert sweep(checkpoint, Qwen3OmniEncoder).steps == "time: a step every 160 samples"
