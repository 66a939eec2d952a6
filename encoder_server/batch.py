"""A batch on its way: what an engine is asked, and the futures on which the caller waits.

Place: made by `engines` for the pipeline and for ordered probes; filled by the engine that takes it.
Must never: leave a waiter without a result or an error, or replace a promise that was published.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from encoder_server.engine import messages
from encoder_server.errors import EncoderServerError


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What to ask: items with their media, or, without items, the golden probe with more `sizes`."""

    items: tuple[messages.Item, ...] = ()
    blobs: Sequence[bytes] = ()
    sizes: tuple[messages.Size, ...] = ()

    def message(self, batch: int) -> messages.Encode | messages.Probe:
        """Return the message that asks an engine for this work."""
        if self.items:
            return messages.Encode(batch=batch, items=self.items)
        return messages.Probe(batch=batch, sizes=self.sizes)


class Batch:
    """One piece of work; `promised` comes before `finished` (an Encoded or a Probed with its blobs)."""

    def __init__(self, work: Work) -> None:
        loop = asyncio.get_running_loop()
        self.work = work
        self.losses = 0
        self.promised: asyncio.Future[messages.Promised] = loop.create_future()
        self.finished: asyncio.Future[messages.Received] = loop.create_future()

    @property
    def wanted(self) -> bool:
        """Whether anybody still waits for the result."""
        return not self.finished.done()

    def publish(self, promised: messages.Promised) -> None:
        """Publish the promises. A second engine's are not: the check measures its rows by the first."""
        if not self.promised.done():
            self.promised.set_result(promised)

    def finish(self, received: messages.Received) -> None:
        """Hand the result over."""
        if not self.finished.done():
            self.finished.set_result(received)

    def fail(self, error: EncoderServerError) -> None:
        """Wake every waiter with `error`."""
        for future in (self.promised, self.finished):
            if not future.done():
                future.set_exception(error)
                # Read once here, so that a future that nobody waits for is not reported as forgotten.
                future.exception()

    def abandon(self) -> None:
        """Say that nobody waits any more; an engine that has not taken the batch skips it."""
        self.promised.cancel()
        self.finished.cancel()
