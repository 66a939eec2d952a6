"""Admission: a bounded number of requests and bytes, and a gate that the replica's state opens and closes.

Place: the first stage; a request holds its permit until it is answered. Must never: queue, wait, let a permit be
given back twice, or let one caller keep all others out: while another was refused, who has its share is refused what
becomes free (`shares`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from encoder_server.errors import OverloadedError, UnavailableError
from encoder_server.shares import gives_way

# Longer than a 429 asks its caller to wait: who comes again then finds a place.
_WAITING_SECONDS = 3.0
_MOST_WAITING = 256


class Permit:
    """One admitted request: holds a place and `size` bytes until it is released (a context manager).

    `deadline` is a time of the event loop's clock by which the request is answered.
    """

    def __init__(self, admission: Admission, size: int, deadline: float, caller: str) -> None:
        self._admission = admission
        self._size = size
        self._caller = caller
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
            self._admission.give_back(self._size, self._caller)

    def __enter__(self) -> Permit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Held:
    """What a request holds until its answer is written: the permit that it was given, if it was."""

    __slots__ = ("_permit",)

    def __init__(self) -> None:
        self._permit: Permit | None = None

    def take(self, permit: Permit) -> Permit:
        """Hold `permit`, and return it."""
        self._permit = permit
        return permit

    def release(self) -> None:
        """Give back what is held."""
        if self._permit is not None:
            self._permit.release()


class Admission:
    """Counts who is in. `refusal` says why nobody may enter now, or None."""

    def __init__(self, max_requests: int, max_bytes: int, refusal: Callable[[], UnavailableError | None]) -> None:
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._refusal = refusal
        self._held: dict[str, int] = {}
        self._refused_at: dict[str, float] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self.in_flight = 0
        self.bytes_in_flight = 0

    def admit(self, size: int, seconds: float, caller: str) -> Permit:
        """Return a permit for a body of at most `size` bytes of `caller` that is answered within `seconds`.

        Raises the state's refusal, or OverloadedError when every place or byte is taken, or is others' first.
        """
        refused = self._refusal()
        if refused is not None:
            raise refused
        now = asyncio.get_running_loop().time()
        if self._refused_at:
            self._give_way(caller, now)
        try:
            if self.in_flight >= self._max_requests:
                raise OverloadedError(f"{self.in_flight} requests are in flight; the limit is {self._max_requests}")
            self.check_bytes(size)
        except OverloadedError:
            self._refused_at.pop(caller, None)
            self._refused_at[caller] = now
            raise
        self._refused_at.pop(caller, None)
        self._held[caller] = self._held.get(caller, 0) + 1
        self.in_flight += 1
        self.bytes_in_flight += size
        self._idle.clear()
        return Permit(self, size, now + seconds, caller)

    def _give_way(self, caller: str, now: float) -> None:
        """Raise OverloadedError where `caller` has its share, and another waits for one; who was refused long ago, or
        before too many others, waits no more."""
        oldest_first = list(self._refused_at.items())
        forgotten = len(oldest_first) - _MOST_WAITING
        for at, (each, refused_at) in enumerate(oldest_first):
            if at < forgotten or refused_at < now - _WAITING_SECONDS:
                del self._refused_at[each]
        share = gives_way(caller, self._held, self._refused_at, self._max_requests)
        if share is not None:
            raise OverloadedError(
                f"{self._held[caller]} requests of this caller are in flight, and others are refused; its share of"
                f" {self._max_requests} is {share}"
            )

    def check_bytes(self, size: int) -> None:
        """Raise OverloadedError when `size` more bytes would pass the limit."""
        if self.bytes_in_flight + size > self._max_bytes:
            raise OverloadedError(
                f"{self.bytes_in_flight} bytes are in flight and {size} more would pass the limit of {self._max_bytes}"
            )

    def give_back(self, size: int, caller: str) -> None:
        """Take one place and `size` bytes of `caller` back; called by permits alone."""
        self._held[caller] -= 1
        if not self._held[caller]:
            del self._held[caller]
        self.in_flight -= 1
        self.bytes_in_flight -= size
        if self.in_flight == 0:
            self._idle.set()

    async def wait_until_idle(self) -> None:
        """Wait until nobody is in."""
        await self._idle.wait()
