"""Batches: the same rows as alone, and one bad item that fails alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from encoder_server.encoders import Clip, Description, Features, Picture, Source, UnfitMediaError
from encoder_server.encoders.qwen2_5_vl import Qwen25VLEncoder
from encoder_server.engine.pipeline import NotEncodedError, Pipeline
from tests.support.encoders import picture, pipeline_of, prepare

# A batch changes the order of float32 sums; a wrong row is off by the size of an embedding's values, about 0.7.
TOLERANCE = 2e-5
SIZES = [(56, 56), (112, 84), (1, 1), (61, 173), (28, 300), (200, 150), (56, 56)]


def test_a_result_does_not_depend_on_its_batch_mates_or_their_order(pipeline: Pipeline) -> None:
    pictures = [picture(*size) for size in SIZES]
    for order in (list(range(len(SIZES))), list(reversed(range(len(SIZES))))):
        prepared = prepare(pipeline, *(pictures[at] for at in order))
        embeddings, failures = pipeline.encode(prepared)
        assert not failures
        for at, promise, embedding in zip(order, prepared.promises, embeddings, strict=True):
            alone = pipeline.rows(pictures[at])
            assert embedding.rows.shape == alone.shape == (promise.tokens, 64)
            assert numpy.abs(embedding.rows.numpy() - alone).max() < TOLERANCE


def test_promise_and_rows_agree_for_every_residue_of_the_factor(pipeline: Pipeline) -> None:
    prepared = prepare(pipeline, *(picture(40 + step, 95 - step) for step in range(28)))
    embeddings, failures = pipeline.encode(prepared)
    assert not prepared.failures
    assert not failures
    for promise, embedding in zip(prepared.promises, embeddings, strict=True):
        assert len(embedding.rows) == promise.tokens == promise.grid[1] * promise.grid[2] // 4


@pytest.mark.parametrize("size", [(1, 1), (1, 200), (200, 1), (13, 2600), (257, 27), (16, 16), (27, 29), (639, 31)])
def test_thin_and_tiny_pictures_are_encoded(pipeline: Pipeline, size: tuple[int, int]) -> None:
    assert numpy.isfinite(pipeline.rows(picture(*size))).all()


def test_pictures_of_other_content_and_of_swapped_sides_get_other_rows(pipeline: Pipeline) -> None:
    assert numpy.abs(pipeline.rows(picture(56, 112)) - pipeline.rows(picture(112, 56))).max() > 0.1
    assert numpy.abs(pipeline.rows(picture(56, 56)) - pipeline.rows(picture(57, 56))).max() > 0.1


class Culprit(Qwen25VLEncoder):
    """Its model cannot take a grid of 10x10 patches."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        if any(item.grid == (1, 10, 10) for item in features):
            raise ValueError("position_ids do not match the attention input")
        return super().encode(features)


def test_a_shape_error_in_the_model_fails_the_culprit_alone(checkpoint: Path) -> None:
    pipeline = pipeline_of(checkpoint, Culprit)
    prepared = prepare(pipeline, picture(56, 56), picture(140, 140), picture(84, 84))
    embeddings, failures = pipeline.encode(prepared)
    assert [promise.tokens for promise in prepared.promises] == [4, 25, 9]
    assert [embedding.index for embedding in embeddings] == [0, 2]
    (failure,) = failures
    assert (failure.index, failure.code, failure.promised, failure.grid) == (1, "layout", 25, (1, 10, 10))
    assert failure.detail == "shapes or positions do not fit in the model"


class Choosy(Qwen25VLEncoder):
    """Its processor breaks on some pictures, and refuses others."""

    def preprocess(self, media: Sequence[Picture | Clip]) -> list[Features]:
        for width in (item.pixels.shape[1] for item in media if isinstance(item, Picture)):
            if width == 60:
                raise ValueError("mean must have 1 elements")
            if width == 61:
                raise UnfitMediaError("61 pixels wide")
        return super().preprocess(media)


def test_an_error_in_the_processor_fails_the_culprit_alone_before_any_promise(checkpoint: Path) -> None:
    prepared = prepare(pipeline_of(checkpoint, Choosy), picture(56, 56), picture(60, 9), picture(61, 9))
    assert [promise.index for promise in prepared.promises] == [0]
    assert [(failure.index, failure.code, failure.detail) for failure in prepared.failures] == [
        (1, "layout", "shapes or positions do not fit in the processor"),
        (2, "bad_media", "61 pixels wide"),
    ]


class Forgetful(Qwen25VLEncoder):
    """Its processor loses an item, and its model another, wherever there are several."""

    def preprocess(self, media: Sequence[Picture | Clip]) -> list[Features]:
        return super().preprocess(media)[: max(1, len(media) - 1)]

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        return super().encode(features)[: max(1, len(features) - 1)]


def test_a_batch_that_loses_an_item_is_run_item_by_item(checkpoint: Path, pipeline: Pipeline) -> None:
    forgetful = pipeline_of(checkpoint, Forgetful)
    embeddings, failures = forgetful.encode(prepare(forgetful, picture(56, 56), picture(84, 84)))
    assert not failures
    assert numpy.abs(embeddings[1].rows.numpy() - pipeline.rows(picture(84, 84))).max() < TOLERANCE


class Small(Qwen25VLEncoder):
    """Has memory for 50 patches at once."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        if sum(item.cost for item in features) > 50:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().encode(features)


def test_a_batch_out_of_memory_is_halved_and_an_item_too_big_alone_fails_alone(checkpoint: Path) -> None:
    pipeline = pipeline_of(checkpoint, Small)
    embeddings, failures = pipeline.encode(prepare(pipeline, *[picture(56, 56)] * 4, picture(200, 150)))
    assert [embedding.index for embedding in embeddings] == [0, 1, 2, 3]
    assert [(failure.index, failure.code) for failure in failures] == [(4, "out_of_memory")]


class Reusing(Qwen25VLEncoder):
    """Takes one item at a time, and writes its rows over those of the item before."""

    def describe(self) -> Description:
        return replace(super().describe(), together=False)

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        (rows,) = super().encode(features)
        self.output[: len(rows)] = rows
        return [self.output[: len(rows)]]

    output = torch.zeros(100, 64)


def test_an_encoder_that_uses_its_output_buffer_again_gives_each_item_its_own_rows(
    checkpoint: Path, pipeline: Pipeline
) -> None:
    pictures = [picture(84, 56), picture(56, 84)]
    reusing = pipeline_of(checkpoint, Reusing)
    embeddings, failures = reusing.encode(prepare(reusing, *pictures))
    assert not failures
    for embedding, data in zip(embeddings, pictures, strict=True):
        assert numpy.abs(embedding.rows.numpy() - pipeline.rows(data)).max() < TOLERANCE


class Untidy(Qwen25VLEncoder):
    """Gives, for a grid of 10x10 patches, what is no rows or no promise."""

    @staticmethod
    def features(item: Features) -> Any:
        return item

    @staticmethod
    def rows(rows: torch.Tensor) -> Any:
        return rows

    def preprocess(self, media: Sequence[Picture | Clip]) -> list[Features]:
        return [self.features(item) if item.grid == (1, 10, 10) else item for item in super().preprocess(media)]

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        pairs = zip(features, super().encode(features), strict=True)
        return [self.rows(rows) if item.grid == (1, 10, 10) else rows for item, rows in pairs]


@pytest.mark.parametrize(
    "promised",
    [
        lambda item: None,
        lambda item: replace(item, tokens=None),
        lambda item: replace(item, tokens=25.5),
        lambda item: replace(item, tokens=-25),
        lambda item: replace(item, tokens=0),
        lambda item: replace(item, grid=None),
        lambda item: replace(item, grid=(1, "10")),
    ],
)
def test_what_is_no_promise_costs_its_item_and_not_the_engine(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, promised: Callable[[Features], Any]
) -> None:
    monkeypatch.setattr(Untidy, "features", staticmethod(promised))
    prepared = prepare(pipeline_of(checkpoint, Untidy), picture(56, 56), picture(140, 140))
    assert [promise.index for promise in prepared.promises] == [0]
    assert [(failure.index, failure.code) for failure in prepared.failures] == [(1, "layout")]


@pytest.mark.parametrize(
    "produced",
    [
        lambda rows: None,
        lambda rows: rows.numpy(),
        lambda rows: rows[None],
        lambda rows: rows.to_sparse(),
        lambda rows: rows.to("meta"),
        lambda rows: torch.quantize_per_tensor(rows, 0.1, 0, torch.qint8),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_is_no_rows_costs_its_item_and_not_the_engine(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, produced: Callable[[torch.Tensor], Any]
) -> None:
    monkeypatch.setattr(Untidy, "rows", staticmethod(produced))
    untidy = pipeline_of(checkpoint, Untidy)
    embeddings, failures = untidy.encode(prepare(untidy, picture(56, 56), picture(140, 140)))
    assert [embedding.index for embedding in embeddings] == [0]
    assert [(failure.index, failure.code) for failure in failures] == [(1, "layout")]


class Poisoned(Qwen25VLEncoder):
    """Has `poison` done to the second item's rows."""

    poison: Callable[[torch.Tensor], torch.Tensor]

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        *rows, last = (part.clone() for part in super().encode(features))
        return [*rows, type(self).poison(last)]


def _with(*values: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def poison(rows: torch.Tensor) -> torch.Tensor:
        for at, value in enumerate(values):
            rows[at, 3] = value
        return rows

    return poison


@pytest.mark.parametrize(
    ("poison", "finite"),
    [
        (_with(float("nan")), False),
        (_with(float("inf")), False),
        (_with(float("inf"), float("-inf")), False),
        (lambda rows: torch.full_like(rows, 60_000.0, dtype=torch.float16), True),
        (lambda rows: torch.full_like(rows, 1e38), True),
        (lambda rows: torch.ones_like(rows, dtype=torch.int32), True),
    ],
    ids=["nan", "inf", "inf and -inf", "a sum beyond float16", "a sum beyond float32", "whole numbers"],
)
def test_values_that_are_not_finite_are_told_for_the_item_that_has_them(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, poison: Callable[[torch.Tensor], torch.Tensor], finite: bool
) -> None:
    monkeypatch.setattr(Poisoned, "poison", staticmethod(poison), raising=False)
    pipeline = pipeline_of(checkpoint, Poisoned)
    embeddings, _ = pipeline.encode(prepare(pipeline, picture(56, 56), picture(84, 84)))
    assert [embedding.finite for embedding in embeddings] == [True, finite]


def test_half_precision_rows_are_sent_as_they_are(checkpoint: Path, pipeline: Pipeline) -> None:
    half = Pipeline.load(checkpoint, dtype="bfloat16")
    (embedding,), _ = half.encode(prepare(half, picture(56, 56)))
    assert embedding.dtype == "bfloat16"
    assert embedding.raw().nbytes == 4 * 64 * 2
    assert numpy.abs(half.rows(picture(56, 56)) - pipeline.rows(picture(56, 56))).max() < 0.1
    assert {item.result for item in half.probe([])[0]} == {"ok"}


def test_positions_keep_their_precision_whatever_the_weights_are_cast_to(checkpoint: Path) -> None:
    source = Source(model=checkpoint, processor=checkpoint, device="cpu", dtype="bfloat16")
    model = Qwen25VLEncoder.load(source)._model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert {buffer.dtype for buffer in model.buffers()} == {torch.float32}


def test_rows_asked_for_in_process_say_why_there_are_none(pipeline: Pipeline) -> None:
    with pytest.raises(NotEncodedError, match=r"^not a JPEG, PNG, WebP or GIF picture$"):
        pipeline.rows(b"hello")
