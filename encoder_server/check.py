"""The check: what was encoded must be what was promised and declared, item by item, then in total.

Place: between the engine's rows and `deliver`, which takes nothing but a `Passed` from here. Pure.
Must never: be switched off, correct a difference, or look at anything but promise, rows and declaration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from encoder_server.engine.messages import Declared, Failure, Output, ProbeItem, Promise

ITEM_SIZES: Mapping[str, int] = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}


class Result(StrEnum):
    """How the check of one item ended; label `result` of encoder_token_checks_total."""

    OK = "ok"
    COUNT = "count"
    WIDTH = "width"
    DTYPE = "dtype"
    NONFINITE = "nonfinite"
    LAYOUT = "layout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One item that failed: `promised` and `produced` are rows; None where there were none to count."""

    index: int
    modality: str
    grid: tuple[int, ...] | None
    promised: int | None
    produced: int | None
    result: Result
    message: str


class Rows(NamedTuple):
    """One item's embedding: `data` is row major and little endian, `shape` is (rows, width)."""

    promise: Promise
    shape: tuple[int, ...]
    dtype: str
    data: memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What an engine said of one batch. `asked` maps the index of each item handed over to its modality;
    `blobs` are the embeddings that the outputs point to."""

    asked: Mapping[int, str]
    promises: Sequence[Promise]
    outputs: Sequence[Output]
    blobs: Sequence[memoryview]
    failures: Sequence[Failure]


class Passed(NamedTuple):
    """Rows that passed, in the order of their items. Made in this module alone."""

    rows: tuple[Rows, ...]


def in_order(parts: Sequence[Passed]) -> Passed:
    """Return what passed in several batches as one."""
    if len(parts) == 1:
        return parts[0]
    return Passed(rows=tuple(sorted((rows for part in parts for rows in part.rows), key=_place)))


def _place(rows: Rows) -> int:
    return rows.promise.index


def check_batch(batch: Batch, declared: Mapping[str, Declared]) -> tuple[Passed, tuple[Violation, ...]]:
    """Check every promised item, then the total; return what passed and what did not.

    Layout failures that the engine reports are violations too. Its other failures are no matter of the check.
    """
    failed = {failure.index for failure in batch.failures}
    violations = [_from_failure(failure) for failure in batch.failures if failure.code == "layout"]
    passed: list[Rows] = []
    for index, modality in sorted(batch.asked.items()):
        if index in failed:
            continue
        found = _check_item(index, modality, batch, declared.get(modality))
        if isinstance(found, Violation):
            violations.append(found)
        else:
            passed.append(found)
    stray = _check_total(batch, failed)
    if stray is not None:
        violations += [_violation(rows.promise, None, Result.LAYOUT, stray) for rows in passed]
        passed = []
    violations.sort(key=lambda violation: violation.index)
    return Passed(rows=tuple(passed)), tuple(violations)


def _check_item(index: int, modality: str, batch: Batch, declared: Declared | None) -> Rows | Violation:
    promises = [promise for promise in batch.promises if promise.index == index]
    outputs = [output for output in batch.outputs if output.index == index]
    if len(promises) != 1:
        text = f"{len(promises)} promises came back for one item (item {index}, {modality})"
        return Violation(
            index=index,
            modality=modality,
            grid=None,
            promised=None,
            produced=None,
            result=Result.LAYOUT,
            message=text,
        )
    (promise,) = promises
    if len(outputs) != 1:
        return _violation(promise, None, Result.LAYOUT, f"{len(outputs)} embeddings came back for one item")
    output = outputs[0]
    if output.modality != promise.modality:
        return _violation(promise, None, Result.LAYOUT, "the embedding is of another modality")
    if not 0 <= output.blob < len(batch.blobs):
        return _violation(promise, None, Result.LAYOUT, f"an embedding of shape {output.shape} is not rows")
    rows = Rows(promise=promise, shape=output.shape, dtype=output.dtype, data=batch.blobs[output.blob])
    found = check_rows(rows, declared)
    if found is None and not output.finite:
        return _violation(promise, output.shape[0], Result.NONFINITE, "rows hold a value that is not finite")
    return found or rows


def check_kept(modality: str, rows: Rows, declared: Mapping[str, Declared]) -> Passed | Violation:
    """Check rows again that were kept for an item of `modality`: all but their values, which were finite when fresh."""
    if rows.promise.modality != modality:
        return _violation(rows.promise, None, Result.LAYOUT, "the embedding is of another modality")
    return check_rows(rows, declared.get(modality)) or Passed(rows=(rows,))


def check_rows(rows: Rows, declared: Declared | None) -> Violation | None:
    """Return what is wrong with one item's rows, by its promise and what the encoder declares of its modality.

    Whether all values are finite is not looked at: who made the rows says so.
    """
    promise = rows.promise
    if declared is None:
        return _violation(promise, None, Result.LAYOUT, "the embedding is of another modality")
    if len(rows.shape) != 2:
        return _violation(promise, None, Result.LAYOUT, f"an embedding of shape {rows.shape} is not rows")
    produced, width = rows.shape
    if produced != promise.tokens:
        return _violation(promise, produced, Result.COUNT, "")
    if width != declared.width:
        text = f"rows are {width} wide, but the encoder declares {declared.width}"
        return _violation(promise, produced, Result.WIDTH, text)
    if rows.dtype != declared.dtype or rows.dtype not in ITEM_SIZES:
        text = f"rows are {rows.dtype}, but the encoder declares {declared.dtype}"
        return _violation(promise, produced, Result.DTYPE, text)
    if rows.data.nbytes != produced * width * ITEM_SIZES[rows.dtype]:
        return _violation(promise, None, Result.LAYOUT, "the embedding's bytes do not fill its shape")
    return None


def _check_total(batch: Batch, failed: Set[int]) -> str | None:
    """Rows that belong to no item mean that nobody's rows can be trusted, though each count is right."""
    owners = batch.asked.keys() - failed
    strays = sum(output.shape[0] for output in batch.outputs if output.index not in owners and output.shape)
    if not strays:
        return None
    total = sum(promise.tokens for promise in batch.promises if promise.index in owners)
    return f"the batch was promised {total} tokens, and {strays} more came back that belong to no item"


def _violation(promise: Promise, produced: int | None, result: Result, text: str) -> Violation:
    return Violation(
        index=promise.index,
        modality=promise.modality,
        grid=promise.grid,
        promised=promise.tokens,
        produced=produced,
        result=result,
        message=_sentence(result, promise.tokens, produced, text, f"item {promise.index}, {promise.modality}"),
    )


def _from_failure(failure: Failure) -> Violation:
    return Violation(
        index=failure.index,
        modality=failure.modality,
        grid=failure.grid,
        promised=failure.promised,
        produced=None,
        result=Result.LAYOUT,
        message=f"{failure.detail} (item {failure.index}, {failure.modality})",
    )


def describe_probe_item(item: ProbeItem) -> str:
    """Say what is wrong with a probe's item, in the words of a failed request."""
    place = f"{item.words}, item {item.index}"
    texts = {
        "width": "rows are not as wide as the encoder declares",
        "dtype": "rows are not of the dtype that the encoder declares",
        "nonfinite": "rows hold a value that is not finite",
        "layout": "processor and model disagree about the layout, or one of them failed",
    }
    return _sentence(Result(item.result), item.promised, item.produced, texts.get(item.result, ""), place)


def _sentence(result: Result, promised: int | None, produced: int | None, text: str, place: str) -> str:
    if result is Result.COUNT:
        text = f"Encoder produced {produced} tokens, but preprocessor metadata expected {promised}"
    return f"{text} ({place})"
