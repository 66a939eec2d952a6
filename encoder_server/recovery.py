"""Recovery: what may be hoped of engines that are gone, from the times at which they went and may come back.

Place: asked by `engines`; the answers say who is sent elsewhere instead of waiting, and when /healthz gives the
container up. Pure. Must never: read a clock, or give up an engine that is only slow to start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_BACKOFF_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """One engine's place. `failed`: it was started since it last served, and that start came to nothing;
    `earliest` is when it may serve, as far as is known."""

    ready: bool
    failed: bool
    earliest: float


def backoff(previous: float, first: float) -> float:
    """Return the pause before the next start: `first`, doubled each time, at most a minute."""
    return min(max(2 * previous, first), _MOST_BACKOFF_SECONDS)


def back_at(prospects: Sequence[Prospect]) -> float:
    """Return when an engine may serve again; -inf where one does, inf where none is to be expected.

    The first start after a loss is hoped for; one that came to nothing is not repeated at the cost of who waits.
    """
    if any(each.ready for each in prospects):
        return -math.inf
    return min((each.earliest for each in prospects if not each.failed), default=math.inf)


def is_steady(ready_since: float, now: float, patience: float) -> bool:
    """Return whether an engine that is lost `now` had been back for long enough to count as back, served or not."""
    return now - ready_since >= patience


def is_for_good(losses: Sequence[int], since: float, now: float, patience: float, start_seconds: float) -> bool:
    """Return whether engines that are gone `since` then are gone for longer than `patience` and the time of two starts.

    `losses` has for each engine's place how often in a row it was lost: as long as one is on its first way back, it
    may take whatever time it takes.
    """
    return min(losses) > 1 and now - since > patience + 2 * start_seconds


def is_stuck_for_good(batches: int, since: float, now: float, patience: float, longest: float) -> bool:
    """Return whether engines that begin batches, and have ended none of `batches` since then, are stuck for good.

    One batch takes no longer than `longest`, or its engine is ended; so this is never said of one that is only busy.
    One batch alone may be its caller's fault.
    """
    return batches > 1 and now - since > patience + longest
