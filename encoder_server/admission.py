"""Admission: a bounded number of requests and bytes, and a gate that the replica's state opens and closes.

Place: the first stage; a request holds its permit until it is answered. Must never: queue, wait, or let a
permit be given back twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from encoder_server.errors import OverloadedError, UnavailableError


class Permit:
    """One admitted request: holds a place and `size` bytes until it is released (a context manager).

    `deadline` is a time of the event loop's clock by which the request is answered.
    """

    def __init__(self, admission: Admission, size: int, deadline: float) -> None:
        self._admission = admission
        self._size = size
        self._held = True
        self.deadline = deadline

    def resize(self, size: int) -> None:
        """Hold `size` bytes from now on: what was reserved was a bound."""
        if self._held:
            self._admission.bytes_in_flight += size - self._size
            self._size = size

    def grow(self, size: int) -> None:
        """Hold `size` bytes more; raises OverloadedError when they are not there."""
        if self._held:
            self._admission.check_bytes(size)
            self.resize(self._size + size)

    def release(self) -> None:
        """Give the place and the bytes back; again does nothing."""
        if self._held:
            self._held = False
            self._admission.give_back(self._size)

    def __enter__(self) -> Permit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Admission:
    """Counts who is in. `refusal` says why nobody may enter now, or None."""

    def __init__(self, max_requests: int, max_bytes: int, refusal: Callable[[], UnavailableError | None]) -> None:
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._refusal = refusal
        self._idle = asyncio.Event()
        self._idle.set()
        self.in_flight = 0
        self.bytes_in_flight = 0

    def admit(self, size: int, seconds: float) -> Permit:
        """Return a permit for a body of at most `size` bytes that is answered within `seconds`.

        Raises the state's refusal, or OverloadedError when every place or byte is taken.
        """
        refused = self._refusal()
        if refused is not None:
            raise refused
        if self.in_flight >= self._max_requests:
            raise OverloadedError(f"{self.in_flight} requests are in flight; the limit is {self._max_requests}")
        self.check_bytes(size)
        self.in_flight += 1
        self.bytes_in_flight += size
        self._idle.clear()
        return Permit(self, size, asyncio.get_running_loop().time() + seconds)

    def check_bytes(self, size: int) -> None:
        """Raise OverloadedError when `size` more bytes would pass the limit."""
        if self.bytes_in_flight + size > self._max_bytes:
            raise OverloadedError(
                f"{self.bytes_in_flight} bytes are in flight and {size} more would pass the limit of {self._max_bytes}"
            )

    def give_back(self, size: int) -> None:
        """Take one place and `size` bytes back; called by permits alone."""
        self.in_flight -= 1
        self.bytes_in_flight -= size
        if self.in_flight == 0:
            self._idle.set()

    async def wait_until_idle(self) -> None:
        """Wait until nobody is in."""
        await self._idle.wait()
