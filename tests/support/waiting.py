"""Waiting for a condition with a deadline: the only place where a test may let time pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_EVERY = 0.25


def until(description: str, probe: Callable[[], T | None], *, seconds: float) -> T:
    """Return the first truthy answer of `probe`; AssertionError names what never came and the last answer."""
    deadline = time.monotonic() + seconds
    answer = probe()
    while not answer:
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} s for {description}; last seen: {answer!r}")
        time.sleep(_EVERY)
        answer = probe()
    return answer


def throughout(description: str, holds: Callable[[], bool], *, seconds: float) -> None:
    """Watch that `holds` stays true for so many seconds; AssertionError says when it did not."""
    started = time.monotonic()
    while (elapsed := time.monotonic() - started) < seconds:
        assert holds(), f"after {elapsed:.1f} s it no longer held that {description}"
        time.sleep(_EVERY)
