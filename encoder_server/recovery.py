"""Recovery: what may be hoped of engines that are gone, from the times at which they went and may come back.

Place: asked by `engines`; the answers say who is sent elsewhere instead of waiting, and when /healthz gives the
container up. Pure. Must never: read a clock, or give up an engine that is only slow to start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Labour:
    """Batches that engines began since one was last done: how many, since when, how many are under way, and when the
    last of them ended in nothing. A pause of more than the patience makes a new beginning."""

    batches: int = 0
    since: float = 0.0
    under_way: int = 0
    ended: float = -math.inf

    def begin(self, now: float, patience: float) -> Labour:
        """Count a batch that begins."""
        anew = not self.batches or (not self.under_way and now - self.ended > patience)
        batches, since = (1, now) if anew else (self.batches + 1, self.since)
        return replace(self, batches=batches, since=since, under_way=self.under_way + 1)

    def end(self, now: float, *, done: bool) -> Labour:
        """Count a batch that was done, or ended in nothing."""
        under_way = self.under_way - 1
        return Labour(under_way=under_way) if done else replace(self, under_way=under_way, ended=now)

    def is_in_vain(self, now: float, patience: float, longest: float, *, idle: bool) -> bool:
        """Return whether engines work, or come back to work, and nothing has come of it for longer than `patience`
        and a batch.

        One batch takes no longer than `longest`, or its engine is ended: an engine that is only busy is none of these.
        Nor is one `idle` (an engine waits for work), and one batch alone may be its caller's fault.
        """
        at_work = self.under_way > 0 or not idle
        return at_work and self.batches > 1 and now - self.since > patience + longest
