"""An encoding: one request's items on their way, some recalled, the others waited for.

Place: made by `recall`, followed by the pipeline: first `promised`, then `finished`.
Must never: cancel a computation that others may wait for, or change a promise that it gave out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from encoder_server.check import Batch, Passed
from encoder_server.engine.messages import Failure, Promise, numbered
from encoder_server.job import Done, Job
from encoder_server.media import Medium
from encoder_server.size import Size

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """An item that was recalled, with its rows: they passed the check again."""

    medium: Medium
    passed: Passed

    @property
    def promise(self) -> Promise:
        """What the rows were promised to be when they were encoded."""
        return self.passed.rows[0].promise

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Say so where the caller expects another count."""
        return mistaken(self.medium, self.promise)


def mistaken(medium: Medium, promise: Promise) -> tuple[Failure, ...]:
    """Say, in the words of an engine, so where the caller of a recalled item expects another count."""
    expected = medium.expected_tokens
    if expected in (None, promise.tokens):
        return ()
    failure = Failure(
        index=promise.index,
        modality=promise.modality,
        code="promise_mismatch",
        detail=f"expected {expected} tokens, the processor makes {promise.tokens}",
        promised=promise.tokens,
        grid=promise.grid,
    )
    return (failure,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """An item that is computed; `key` is under what others find the computation and its rows."""

    medium: Medium
    key: str | None
    job: Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one item, as the check takes it. `fresh`: nobody else has taken it in evidence."""

    medium: Medium
    key: str | None
    batch: Batch
    fresh: bool

    @property
    def size(self) -> Size:
        """What the medium was when the engine had decoded it or, where it did not say, what its header says."""
        told: list[Promise | Failure] = [*self.batch.promises, *self.batch.failures]
        return next((each.size for each in told if each.size is not None), self.medium.size)


class Encoding:
    """The items of one request. Leaving it (a context manager) leaves what nobody else waits for undone."""

    def __init__(
        self, *, hits: Mapping[int, Hit], pending: Sequence[Pending], leave: Callable[[str | None, Job], None]
    ) -> None:
        self._hits = hits
        self._pending = pending
        self._leave = leave

    def __enter__(self) -> Encoding:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for item in self._pending:
            self._leave(item.key, item.job)

    @property
    def recalled(self) -> tuple[Passed, ...]:
        """The rows that need not be computed."""
        return tuple(hit.passed for hit in self._hits.values())

    @property
    def taken_at(self) -> float | None:
        """When the last of what is computed was first taken by an engine, by the event loop's clock."""
        return max((item.job.taken_at for item in self._pending if item.job.taken_at is not None), default=None)

    async def promised(self) -> tuple[tuple[Promise, ...], tuple[Outcome, ...]]:
        """Wait until every item has its promise; return them in order, and what came of items that got none."""
        await _all([item.job.promised for item in self._pending])
        promises = [hit.promise for hit in self._hits.values()]
        without = [_mistaken(hit) for hit in self._hits.values() if hit.failures]
        for item in self._pending:
            told = item.job.promised.result()
            if told.failures or len(told.promises) != 1:
                without.append(_outcome(item, Done()))
            else:
                promises.append(numbered(told.promises[0], item.medium.index))
        return tuple(sorted(promises, key=lambda promise: promise.index)), tuple(without)

    async def finished(self) -> tuple[Outcome, ...]:
        """Wait for every computation; the first that ends in an error ends the wait with it."""
        await _all([item.job.finished for item in self._pending])
        return tuple(_outcome(item, item.job.finished.result()) for item in self._pending)


async def _all(futures: Sequence[asyncio.Future[T]]) -> None:
    """Wait for all, or for the first error. Not by awaiting them: who is cancelled there cancels them for all."""
    waiting = {future for future in futures if not _ended(future)}
    if not waiting:
        return
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def hear(future: asyncio.Future[T]) -> None:
        waiting.discard(future)
        if not over.done() and (not waiting or future.cancelled() or future.exception() is not None):
            over.set_result(None)

    for future in waiting:
        future.add_done_callback(hear)
    try:
        await over
    finally:
        for future in waiting:
            future.remove_done_callback(hear)
    for future in futures:
        _ended(future)


def _ended(future: asyncio.Future[T]) -> bool:
    """Return whether it is done; raises its error."""
    if future.done():
        future.result()
    return future.done()


def _mistaken(hit: Hit) -> Outcome:
    medium = hit.medium
    batch = Batch(asked={medium.index: medium.modality}, promises=(), outputs=(), blobs=(), failures=hit.failures)
    return Outcome(medium=medium, key=None, batch=batch, fresh=False)


def _outcome(item: Pending, done: Done) -> Outcome:
    index, told = item.medium.index, item.job.promised.result()
    failures = told.failures or done.failures
    batch = Batch(
        asked={index: item.medium.modality},
        promises=tuple([numbered(promise, index) for promise in told.promises]),
        outputs=(
            *[numbered(output, index) for output in done.outputs],
            *[numbered(stray, -1) for stray in done.strays],
        ),
        blobs=done.blobs,
        failures=tuple([numbered(failure, index) for failure in failures]),
    )
    return Outcome(medium=item.medium, key=item.key, batch=batch, fresh=item.job.claim())
