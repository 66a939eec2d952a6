"""Encoders of a user's own that do what they should not: what each costs, and whom."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy
import pytest
import torch

from encoder_server.encoders import Clip, Description, Features, Picture, RefusedError, Source
from encoder_server.encoders.qwen2_5_vl import Qwen25VLEncoder
from encoder_server.engine import pipeline as engine_pipeline
from encoder_server.engine.pipeline import Pipeline
from tests.support.encoders import picture, pipeline_of, prepare

# A batch changes the order of float32 sums; a wrong row is off by the size of an embedding's values, about 0.7.
TOLERANCE = 2e-5
SIZES = [(56, 56), (140, 140), (84, 84)]
CULPRIT = (1, 10, 10)

# Of a type that no type checker looks into: the errors are to be raised when the tests run.
ANYTHING: Any = "a"


def fail(error: BaseException) -> Any:
    raise error


BUGS: dict[str, Callable[[], Any]] = {
    "a key": lambda: dict[str, int]()["pixel_values"],
    "a type": lambda: torch.zeros(2) + ANYTHING,
    "a division": lambda: 1 / 0,
    "an assertion": lambda: fail(AssertionError()),
    "a name": lambda: fail(NameError("name 'pixels' is not defined")),
    "an exit": lambda: sys.exit(4),
    "an interrupt": lambda: fail(KeyboardInterrupt()),
}


class Buggy(Qwen25VLEncoder):
    """Fails at a picture of 140x140 in its model, or before in its processor."""

    @staticmethod
    def in_model() -> Any: ...

    @staticmethod
    def in_processor() -> Any: ...

    def preprocess(self, media: Sequence[Picture | Clip]) -> list[Features]:
        if any(item.pixels.shape[0] == 140 for item in media if isinstance(item, Picture)):
            self.in_processor()
        return super().preprocess(media)

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        if any(item.grid == CULPRIT for item in features):
            self.in_model()
        return super().encode(features)


def same_rows(pipeline: Pipeline, found: torch.Tensor, data: bytes) -> bool:
    return bool(numpy.abs(found.numpy() - pipeline.rows(data)).max() < TOLERANCE)


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS.keys())
def test_a_plain_bug_fails_its_item_alone_and_is_no_evidence(
    checkpoint: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, bug: Callable[[], Any]
) -> None:
    pictures = [picture(*size) for size in SIZES]
    monkeypatch.setattr(Buggy, "in_model", staticmethod(bug))
    buggy = pipeline_of(checkpoint, Buggy)
    embeddings, failures = buggy.encode(prepare(buggy, *pictures))
    assert [(failure.index, failure.code, failure.detail) for failure in failures] == [
        (1, "internal", "the model failed")
    ]
    assert [embedding.index for embedding in embeddings] == [0, 2]
    assert all(same_rows(pipeline, each.rows, pictures[each.index]) for each in embeddings)
    monkeypatch.setattr(Buggy, "in_processor", staticmethod(bug))
    prepared = prepare(buggy, *pictures)
    assert [promise.index for promise in prepared.promises] == [0, 2]
    assert [(failure.index, failure.code) for failure in prepared.failures] == [(1, "internal")]


class Scribbling(Qwen25VLEncoder):
    """Writes over whatever it is given, and then cannot take several items at once."""

    def preprocess(self, media: Sequence[Picture | Clip]) -> list[Features]:
        features = super().preprocess(media)
        for item in media:
            (item.pixels if isinstance(item, Picture) else item.frames)[:] = 255
        if len(features) > 1:
            raise RuntimeError("one at a time")
        return features

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        rows = super().encode(features)
        for item in features:
            item.tensors["pixel_values"].zero_()
        if len(rows) > 1:
            raise RuntimeError("one at a time")
        return rows


def test_what_an_encoder_wrote_over_its_input_changes_nobodys_rows(checkpoint: Path, pipeline: Pipeline) -> None:
    pictures = [picture(*size) for size in SIZES]
    scribbling = pipeline_of(checkpoint, Scribbling)
    embeddings, failures = scribbling.encode(prepare(scribbling, *pictures))
    assert not failures
    assert [same_rows(pipeline, each.rows, data) for each, data in zip(embeddings, pictures, strict=True)] == [True] * 3


class Sharing(Qwen25VLEncoder):
    """Writes the rows of each item of a batch over those of the item before, and gives views of that one buffer."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        views = []
        for rows in super().encode(features):
            self.output[: len(rows)] = rows
            views.append(self.output[: len(rows)])
        return views

    output = torch.zeros(100, 64)


class Emptying(Qwen25VLEncoder):
    """Takes the items out of the lists that it is given."""

    def preprocess(self, media: Sequence[Picture | Clip]) -> list[Features]:
        assert isinstance(media, list)
        return [super(Emptying, self).preprocess([media.pop(0)])[0] for _ in range(len(media))]

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        assert isinstance(features, list)
        return [super(Emptying, self).encode([features.pop(0)])[0] for _ in range(len(features))]


@pytest.mark.parametrize("family", [Sharing, Emptying])
def test_each_item_has_its_own_rows_whatever_lists_and_buffers_an_encoder_shares(
    checkpoint: Path, pipeline: Pipeline, family: type[Qwen25VLEncoder]
) -> None:
    pictures = [picture(*size) for size in SIZES]
    odd = pipeline_of(checkpoint, family)
    embeddings, failures = odd.encode(prepare(odd, *pictures))
    assert not failures
    assert [same_rows(pipeline, each.rows, data) for each, data in zip(embeddings, pictures, strict=True)] == [True] * 3


class Odd(Qwen25VLEncoder):
    """Gives rows that are rows, in another shape of tensor than most."""

    @staticmethod
    def made(rows: torch.Tensor) -> torch.Tensor:
        return rows

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        return [self.made(rows) for rows in super().encode(features)]


@pytest.mark.parametrize(
    "made",
    [
        lambda rows: rows.clone().requires_grad_() * 1,
        lambda rows: torch.nn.Parameter(rows.clone()),
        lambda rows: rows.t().contiguous().t(),
        lambda rows: torch.cat([rows, rows], dim=1)[:, :64],
    ],
    ids=["with a gradient", "a parameter", "transposed", "strided"],
)
def test_rows_are_taken_with_a_gradient_and_in_any_order_of_memory(
    checkpoint: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, made: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    def outside(rows: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode(False), torch.enable_grad():
            return made(rows.clone())

    monkeypatch.setattr(Odd, "made", staticmethod(outside))
    odd, data = pipeline_of(checkpoint, Odd), picture(56, 56)
    (embedding,), _ = odd.encode(prepare(odd, data))
    assert embedding.raw().nbytes == 4 * 64 * 4
    assert same_rows(pipeline, embedding.rows, data)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_rows_of_another_dtype_are_told_as_what_they_are(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    monkeypatch.setattr(Odd, "made", staticmethod(lambda rows: rows.to(dtype)))
    odd = pipeline_of(checkpoint, Odd)
    (embedding,), _ = odd.encode(prepare(odd, picture(56, 56)))
    assert embedding.dtype == str(dtype).removeprefix("torch.")
    assert embedding.raw().nbytes == 4 * 64 * dtype.itemsize
    assert {item.result for item in odd.probe([])[0]} == {"dtype"}


class Starting(Qwen25VLEncoder):
    """Does one thing wrong at its start."""

    @classmethod
    def load(cls, source: Source) -> Self:
        cls.wrong("load")
        return super().load(source)

    def describe(self) -> Description:
        return self.wrong("describe") or super().describe()

    def warm_up(self) -> None:
        self.wrong("warm_up")
        super().warm_up()

    @staticmethod
    def wrong(place: str) -> Any: ...


ANYTHING_ELSE: Any = 5
DESCRIPTION = Description(
    weights="b3", processor={}, classes={}, declared={}, together=True, dtype="float32", device="cpu"
)


@pytest.fixture
def starting(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Pipeline]:
    """Load an encoder that does `wrong` where it is told to."""

    def load(place: str, wrong: Callable[[], Any]) -> Pipeline:
        monkeypatch.setattr(engine_pipeline, "find", lambda name, model: Starting)
        monkeypatch.setattr(Starting, "wrong", staticmethod(lambda at: wrong() if at == place else None))
        return Pipeline.load(checkpoint)

    return load


@pytest.mark.parametrize("bug", [BUGS["a key"], BUGS["an exit"], BUGS["an interrupt"]])
def test_an_encoder_that_cannot_start_is_refused_with_the_step_that_failed(
    starting: Callable[..., Pipeline], bug: Callable[[], Any]
) -> None:
    for place, step in (("load", "load"), ("describe", "describe itself")):
        with pytest.raises(RefusedError, match=f"^the encoder failed to {step}; the engine's log has the reason$"):
            starting(place, bug)


@pytest.mark.parametrize(
    "described",
    [
        lambda: 5,
        lambda: replace(DESCRIPTION, weights=ANYTHING_ELSE),
        lambda: replace(DESCRIPTION, declared={"image": ANYTHING_ELSE}),
    ],
)
def test_a_description_that_is_none_is_refused(starting: Callable[..., Pipeline], described: Callable[[], Any]) -> None:
    with pytest.raises(RefusedError, match=r"failed to (be measured|describe itself)"):
        starting("describe", described).measure()


@pytest.mark.parametrize("bug", [BUGS["a division"], BUGS["an exit"]])
def test_a_warm_up_that_fails_is_left_to_the_probe(starting: Callable[..., Pipeline], bug: Callable[[], Any]) -> None:
    assert {item.result for item in starting("warm_up", bug).measure().probe} == {"ok"}


def test_a_thread_that_prints_garbage_disturbs_nobody(
    starting: Callable[..., Pipeline], pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = threading.Event()

    def print_garbage() -> None:
        print("\x00{garbage", flush=True)
        printed.set()

    noisy = starting("warm_up", threading.Thread(target=print_garbage).start)
    assert printed.wait(10)
    assert noisy.measure().signature == pipeline.measure().signature
