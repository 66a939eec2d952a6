"""Batches on their way: each item's job with the futures on which callers wait, and what an engine is asked.

Place: jobs are made by `flights`, one for each item that is computed; `batcher` packs them into batches, which
the engine that takes them fills. Must never: leave a waiter without a result or an error, or replace a promise
that was published.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from encoder_server.engine import messages
from encoder_server.errors import EncoderServerError, InternalError
from encoder_server.media import Medium

_NOT_THE_CALLERS = ("layout", "out_of_memory", "internal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What an engine said of one item before the model ran; `index` of what it holds means nothing."""

    promises: tuple[messages.Promise, ...] = ()
    failures: tuple[messages.Failure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What an engine said of one item in the end; `strays` are embeddings that came with it and are nobody's."""

    outputs: tuple[messages.Output, ...] = ()
    failures: tuple[messages.Failure, ...] = ()
    strays: tuple[messages.Output, ...] = ()
    blobs: tuple[memoryview, ...] = ()


class Job:
    """One item that is computed once, for everybody who waits for it; `promised` comes before `finished`.

    `deadline`, a time of the event loop's clock, is the last of those who wait.
    """

    def __init__(self, medium: Medium, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        self.medium = medium
        self.deadline = deadline
        self.losses = 0
        self.waiting = 0
        self.promised: asyncio.Future[Told] = loop.create_future()
        self.finished: asyncio.Future[Done] = loop.create_future()
        self._claimed = False
        self._failures: tuple[messages.Failure, ...] = ()

    @property
    def wanted(self) -> bool:
        """Whether anybody still waits for the result."""
        return self.waiting > 0 and not self.finished.done()

    @property
    def failed(self) -> bool:
        """Whether it ended, or is known to end, without rows: nobody else should wait for it."""
        told = self.promised.done() and (self.promised.exception() is not None or bool(self.promised.result().failures))
        done = self.finished.done() and (self.finished.exception() is not None or not self.finished.result().outputs)
        return told or done

    def claim(self) -> bool:
        """Return whether the caller is the first: the computation is evidence once, however many share it."""
        first, self._claimed = not self._claimed, True
        return first

    def publish(self, told: Told) -> None:
        """Publish the promise. A second engine's is not: the check measures its rows by the first.

        Where the second one fails before it comes to a promise, that is how the item ends. What it says of the
        caller is not: the first engine found no fault with the medium.
        """
        if not self.promised.done():
            self.promised.set_result(told)
        else:
            self._failures = tuple(failure for failure in told.failures if failure.code in _NOT_THE_CALLERS)

    def finish(self, done: Done) -> None:
        """Hand the result over; an engine that skipped the promise has made none."""
        if not self.promised.done():
            self.publish(Told())
        if not self.finished.done():
            self.finished.set_result(replace(done, failures=(*self._failures, *done.failures)))

    def recall(self, told: Told, done: Done) -> None:
        """Hand over what was computed elsewhere before: it is nobody's evidence."""
        self._claimed = True
        self.publish(told)
        self.finish(done)

    def fail(self, error: EncoderServerError) -> None:
        """Wake every waiter with `error`."""
        _fail(self.promised, error)
        _fail(self.finished, error)


def _fail(
    future: asyncio.Future[Told] | asyncio.Future[Done] | asyncio.Future[messages.Received], error: Exception
) -> None:
    if not future.done():
        future.set_exception(error)
        # Read once here, so that a future that nobody waits for is not reported as forgotten.
        future.exception()


class ItemBatch:
    """Jobs that one engine does together; `shared` says that they are of several callers."""

    def __init__(self, jobs: Sequence[Job], *, shared: bool) -> None:
        self.jobs = tuple(jobs)
        self.shared = shared

    @property
    def wanted(self) -> bool:
        """Whether anybody still waits for any of it."""
        return any(job.wanted for job in self.jobs)

    @property
    def blobs(self) -> Sequence[bytes]:
        """The media, in the order of the message's items."""
        return [job.medium.content for job in self.jobs]

    def message(self, number: int) -> messages.Encode:
        """Return the message that asks an engine for this batch; an item's index is its place in it."""
        items = tuple(
            messages.Item(
                index=place, modality=job.medium.modality, blob=place, expected_tokens=job.medium.expected_tokens
            )
            for place, job in enumerate(self.jobs)
        )
        return messages.Encode(batch=number, items=items)

    def publish(self, promised: messages.Promised) -> None:
        """Give each job its promise."""
        for place, job in enumerate(self.jobs):
            job.publish(
                Told(
                    promises=tuple(promise for promise in promised.promises if promise.index == place),
                    failures=tuple(failure for failure in promised.failures if failure.index == place),
                )
            )

    def finish(self, received: messages.Received) -> bool:
        """Give each job its result. False where none can be trusted: rows came that belong to no item, and
        which of several items brought them only a run of each alone can tell."""
        encoded = received.message
        if not isinstance(encoded, messages.Encoded):
            self.fail(InternalError("the engine answered another question"))
            return True
        strays = tuple(output for output in encoded.outputs if not 0 <= output.index < len(self.jobs))
        if strays and len(self.jobs) > 1:
            return False
        for place, job in enumerate(self.jobs):
            job.finish(
                Done(
                    outputs=tuple(output for output in encoded.outputs if output.index == place),
                    failures=tuple(failure for failure in encoded.failures if failure.index == place),
                    strays=strays,
                    blobs=received.blobs,
                )
            )
        return True

    def fail(self, error: EncoderServerError) -> None:
        """Wake every waiter with `error`."""
        for job in self.jobs:
            job.fail(error)


class ProbeBatch:
    """The golden probe, and synthetic media of `sizes`; `finished` has the Probed. It waits as long as it must."""

    shared = False
    deadline = math.inf

    def __init__(self, sizes: Sequence[messages.Size]) -> None:
        self._sizes = tuple(sizes)
        self.losses = 0
        self.finished: asyncio.Future[messages.Received] = asyncio.get_running_loop().create_future()

    @property
    def wanted(self) -> bool:
        """Whether anybody still waits for the result."""
        return not self.finished.done()

    @property
    def blobs(self) -> Sequence[bytes]:
        """Nothing: an engine makes the probe's media itself."""
        return ()

    def message(self, number: int) -> messages.Probe:
        """Return the message that asks an engine for this probe."""
        return messages.Probe(batch=number, sizes=self._sizes)

    def publish(self, promised: messages.Promised) -> None:
        """Take no notice: nobody waits for a probe's promises."""

    def finish(self, received: messages.Received) -> bool:
        """Hand the result over; always True."""
        if not self.finished.done():
            self.finished.set_result(received)
        return True

    def fail(self, error: EncoderServerError) -> None:
        """Wake the waiter with `error`."""
        _fail(self.finished, error)

    def abandon(self) -> None:
        """Say that nobody waits any more; an engine that has not taken the probe skips it."""
        self.finished.cancel()


Batch = ItemBatch | ProbeBatch
