"""Aside: work that would hold up the event loop is done in a thread; what is done before a thread wakes is not.

Place: asked by the stages of the front, with the bytes that the work goes over. Must never: be asked for work whose
time a caller can stretch beyond its bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

SMALL_BYTES = 256 * 1024
"""Hashed, copied or scanned in a tenth of a millisecond, which is what the way to a thread and back costs."""

P = ParamSpec("P")
T = TypeVar("T")


async def run(size: int, work: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> T:
    """Return what `work` returns; it goes once over `size` bytes."""
    if size <= SMALL_BYTES:
        return work(*arguments, **named)
    return await asyncio.to_thread(work, *arguments, **named)
