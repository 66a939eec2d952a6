"""An encoder without a model, of all three modalities: a row for each 28x28 pixels of each two frames, or each 40 ms.

A row holds its patch's mean, the item's own length, and its rate, so that a test sees what an encoder is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch

from encoder_server.encoders import Clip, Description, Features, Picture, Sound, Source
from encoder_server.engine.messages import Declared

RATE = 16_000
SIDE, STEP, HOP = 28, 2, 640
WIDTH = 4


class MediaEncoder:
    """Keeps the media of every call, by modality; `together` as told."""

    def __init__(self, modalities: Sequence[str] = ("image", "video", "audio")) -> None:
        self.modalities = modalities
        self.calls: list[list[Picture | Clip | Sound]] = []
        self.encoded: list[list[str]] = []

    @classmethod
    def load(cls, source: Source) -> Self:
        return cls()

    def describe(self) -> Description:
        declared = Declared(width=WIDTH, dtype="float32", check="promise")
        return Description(
            weights="00" * 32,
            processor={},
            classes={"encoder": "MediaEncoder"},
            declared=dict.fromkeys(self.modalities, declared),
            together=True,
            dtype="float32",
            device="cpu",
            sampling_rate=RATE if "audio" in self.modalities else None,
        )

    def warm_up(self) -> None:
        """Nothing."""

    def preprocess(self, media: Sequence[Any]) -> Sequence[Features]:
        assert len({medium.modality for medium in media}) == 1
        self.calls.append(list(media))
        return [_features(medium) for medium in media]

    def encode(self, features: Sequence[Features]) -> Sequence[torch.Tensor]:
        self.encoded.append([each.modality for each in features])
        return [_rows(each) for each in features]


def _features(medium: Picture | Clip | Sound) -> Features:
    match medium:
        case Sound():
            values, rate = torch.from_numpy(medium.samples), float(medium.rate)
            grid: tuple[int, ...] = (-(-len(values) // HOP),)
        case Clip():
            values, rate = torch.from_numpy(medium.frames.copy()).float(), medium.fps or 0.0
            grid = (-(-len(values) // STEP), *(-(-side // SIDE) for side in values.shape[1:3]))
        case Picture():
            values, rate = torch.from_numpy(medium.pixels.copy())[None].float(), 0.0
            grid = (1, *(-(-side // SIDE) for side in values.shape[1:3]))
    tokens = int(torch.tensor(grid).prod())
    tensors = {"values": values, "rate": torch.tensor(rate)}
    return Features(modality=medium.modality, tokens=tokens, grid=grid, cost=tokens, tensors=tensors)


def _rows(features: Features) -> torch.Tensor:
    values = features.tensors["values"]
    if features.modality == "audio":
        parts = [part.mean() for part in values.split(HOP)]
    else:
        parts = [
            patch.mean()
            for pair in values.split(STEP)
            for strip in pair.split(SIDE, dim=1)
            for patch in strip.split(SIDE, dim=2)
        ]
    rows = torch.zeros(len(parts), WIDTH)
    rows[:, 0], rows[:, 1], rows[:, 2] = torch.stack(parts), len(values), features.tensors["rate"]
    return rows
