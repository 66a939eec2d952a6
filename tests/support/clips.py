"""Clips from a seeded generator, and an encoder on them without a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from encoder_server.encoders import Clip, Encoder, Source
from encoder_server.encoders.registry import find

Rows = NDArray[numpy.float32]


def clip(frames: int, width: int, height: int, *, fps: float | None = None, seed: int = 0) -> Clip:
    """So many frames of this size, each another picture of coarse noise, which no scaling averages out."""
    noise = numpy.random.default_rng((seed, frames, width, height))
    cells = noise.integers(0, 256, size=(frames, -(-height // 8), -(-width // 8), 3), dtype=numpy.uint8)
    return Clip(frames=cells.repeat(8, axis=1)[:, :height].repeat(8, axis=2)[:, :, :width], fps=fps)


def loaded(folder: Path, dtype: str = "auto") -> Encoder[Any]:
    """The encoder of a checkpoint folder."""
    return find("Auto", folder).load(Source(model=folder, processor=folder, device="cpu", dtype=dtype))


def rows(encoder: Encoder[Any], *media: Any) -> list[Rows]:
    """The rows of media, all of one modality, as one batch."""
    return [each.numpy() for each in encoder.encode(encoder.preprocess(media))]
