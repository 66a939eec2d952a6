"""Encoders in this process, whole or with one thing wrong, and pictures for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from encoder_server.encoders import Encoder, Source
from encoder_server.encoders.qwen2_5_vl import Qwen25VLEncoder
from encoder_server.engine.bounds import Bounds
from encoder_server.engine.messages import Size
from encoder_server.engine.pipeline import Pipeline, Prepared
from encoder_server.engine.preprocess import Medium
from encoder_server.engine.probe import synthetic

MAX_PIXELS = 4_000_000
Variant = Callable[..., Path]
"""What makes a copy of a checkpoint with keys of one of its JSON files changed."""


def picture(width: int, height: int) -> bytes:
    """A PNG of this size, another for every size."""
    return synthetic(Size(modality="image", width=width, height=height))


def pipeline_of(folder: Path, family: type[Qwen25VLEncoder] = Qwen25VLEncoder) -> Pipeline:
    """The pipeline of a checkpoint folder, with this class of encoder."""
    return around(family.load(Source(model=folder, processor=folder, device="cpu", dtype="auto")))


def around(encoder: Encoder[Any]) -> Pipeline:
    """The pipeline around an encoder that is loaded."""
    return Pipeline(encoder, bounds=Bounds(max_pixels=MAX_PIXELS))


def prepare(pipeline: Pipeline, *pictures: bytes) -> Prepared:
    """Prepare pictures as one batch, numbered from 0."""
    return pipeline.prepare([Medium(index=at, modality="image", data=data) for at, data in enumerate(pictures)])
