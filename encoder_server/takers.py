"""Takers: engines that are free, and how they are called to what waits.

Place: below `batcher`, which says what waits. Must never: have an engine wait by a clock while there is something to
do, or let a call be lost with the engine that heard it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from encoder_server.engine import messages

# As long as each pair brings a request, and there is room for it: so many are read in a few milliseconds.
_MOST_PAIRS = 16


class Takers:
    """The engines of one batcher; `free` is how many have nothing to do, those that are being called included."""

    def __init__(self) -> None:
        self.free = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._told = 0

    @property
    def waiting(self) -> int:
        """How many wait to be called."""
        return len(self._waiting)

    def tell(self) -> None:
        """Hear that something has come, and call an engine to it."""
        self._told += 1
        self.call()

    def call(self) -> None:
        """Call the engine that has waited longest, if any waits; one that finds nothing waits again."""
        while self._waiting:
            called = self._waiting.popleft()
            if not called.done():  # Of an engine that is being ended.
                called.set_result(None)
                return

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count one more as free; where it leaves with an error, another is called in its place."""
        self.free += 1
        try:
            yield
        except BaseException:
            self.call()
            raise
        finally:
            self.free -= 1

    async def gather(self, enough: Callable[[], bool]) -> None:
        """Have what has arrived at the sockets read, until it is `enough` or nothing more comes: not a window of time,
        but two turns of the event loop, one to read a request and one to submit it, and two more for each that came."""
        for _ in range(_MOST_PAIRS):
            before = self._told
            if enough():
                return
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if self._told == before:
                return

    async def wait(self, lost: asyncio.Future[None]) -> None:
        """Wait to be called; raises ConnectionLostError when `lost` is done first."""
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def leave(_: asyncio.Future[None]) -> None:
            if not called.done():
                called.set_result(None)

        self._waiting.append(called)
        lost.add_done_callback(leave)
        try:
            await called
        finally:
            lost.remove_done_callback(leave)
            if called in self._waiting:
                self._waiting.remove(called)
        if lost.done():
            raise messages.ConnectionLostError
