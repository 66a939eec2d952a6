"""Jobs: items that are computed once, with the futures on which callers wait.

Place: made by `flights`, one for each item that is computed; `batcher` packs them into batches, and what came of them
an engine or a shared cache says. Must never: leave a waiter without a result or an error, or replace a promise that
was published.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from encoder_server.engine import messages
from encoder_server.errors import EncoderServerError
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

    Times of the event loop's clock: `deadline` is the last of those who wait, `taken_at` when an engine first took it.
    `left` is called when the last of those who wait has left before it was finished.
    """

    def __init__(self, medium: Medium, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        self.medium = medium
        self.deadline = deadline
        self.taken_at: float | None = None
        self.losses = 0
        self.waiting = 0
        self.left: Callable[[], None] | None = None
        self.promised: asyncio.Future[Told] = loop.create_future()
        self.finished: asyncio.Future[Done] = loop.create_future()
        self._claimed = False
        self._failures: tuple[messages.Failure, ...] = ()

    @property
    def wanted(self) -> bool:
        """Whether anybody still waits for the result."""
        return self.waiting > 0 and not self.finished.done()

    def leave(self) -> None:
        """Hear that one who waited has what it wanted, or does not want it any more."""
        self.waiting -= 1
        if self.waiting == 0 and not self.finished.done() and self.left is not None:
            self.left()

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
            told = replace(done, failures=(*self._failures, *done.failures)) if self._failures else done
            self.finished.set_result(told)

    def recall(self, told: Told, done: Done) -> None:
        """Hand over what was computed elsewhere before: it is nobody's evidence."""
        self._claimed = True
        self.publish(told)
        self.finish(done)

    def fail(self, error: EncoderServerError) -> None:
        """Wake every waiter with `error`."""
        fail(self.promised, error)
        fail(self.finished, error)


def fail(
    future: asyncio.Future[Told] | asyncio.Future[Done] | asyncio.Future[messages.Received], error: Exception
) -> None:
    """Wake whoever waits for `future` with `error`, if it is not done."""
    if not future.done():
        future.set_exception(error)
        # Read once here, so that a future that nobody waits for is not reported as forgotten.
        future.exception()
