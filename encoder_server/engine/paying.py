"""Paying: up to which cost it pays off that several callers' items share a batch, as runs say that were timed.

Place: decides for `budget`, which does the runs. Pure.

Of each count the fastest run counts, and to it is added an estimate of what a batch costs around the model. A batch is
doubled as long as that makes an item cheaper by a twentieth, up to the batch that takes `LONGEST` (who comes alone
waits at most so long for mates); and as long as it makes no item dearer, up to `UNNOTICED`: large batches have other
advantages (fewer turns of the front, fewer messages), and nobody feels such a wait. A batch of which one item takes
longer than that is thus shared only where much is gained. Of the two sizes that are tried, the larger budget. Where so
many large pictures take longer than `LONGEST`, or than one after the other, it is halved; where they may not run
together, small ones alone share.

On a busy machine there are few runs, and slow ones among them. So a count that was run less often than `ENOUGH` is
dearer only where it is so by far, and is to be run again (`Paying.doubt`); and one for which there was no time is taken
to be as dear as the largest below it: an item is seldom slowed down by its mates.

Must never: take what was not tried for slow, or for faster than what was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LONGEST = 0.25
UNNOTICED = 0.1
ENOUGH = 3
_AROUND = 0.0005  # An estimate: packing, two messages each way and the turns of the front, none of which is run here.
_CHEAPER = 0.95
_NOISE, _NOISE_OF_FEW = 1.05, 1.25
_SLACK = 1.1
_MOST_LARGE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """Pictures of `side` x `side` pixels: the seconds of each run, by how many ran together (1, 2, 4, ...). No more
    than `most` may: they take too much memory, or fail."""

    side: int
    runs: Mapping[int, Sequence[float]]
    most: int

    def seconds(self, count: int) -> float:
        """Return what so many take together; where that was not tried, in proportion to what was."""
        if count in self.runs:
            return min(self.runs[count])
        below = max((each for each in self.runs if each < count), default=None)
        return math.inf if below is None else min(self.runs[below]) * count / below

    def takes_too_long(self, count: int) -> bool:
        """Return whether no larger count need be tried: so many take longer than may pay."""
        half = self.seconds(count // 2) if count > 1 else math.inf
        return self.seconds(count) > min(LONGEST, max(UNNOTICED, 2 * _CHEAPER * half))


@dataclass(frozen=True, slots=True, kw_only=True)
class Paying:
    """How many together pay off, with what they cost in pixels (0: none do); `doubt` is the count that seemed dearer
    than fewer, and was run too seldom to be sure."""

    count: int
    cost: int
    doubt: int | None


def paying(tried: Tried) -> Paying:
    """Return the largest batch of such pictures, a power of two, that pays off."""
    best, cheapest, count, doubt = 1, math.inf, 1, None
    while count <= tried.most:
        seconds = tried.seconds(count)
        each = (seconds + _AROUND) / count
        gains = count in tried.runs and each <= _CHEAPER * cheapest
        if count > 1 and seconds > (LONGEST if gains else UNNOTICED):
            break
        few = len(tried.runs.get(count, ())) < ENOUGH
        if count > 1 and each > cheapest * (_NOISE_OF_FEW if few else _NOISE):
            doubt = count if few else None
            break
        best, cheapest = count, min(each, cheapest)
        count *= 2
    return Paying(count=best, cost=best * tried.side**2 if best > 1 else 0, doubt=doubt)


def budget(small: Tried, large: Tried) -> int:
    """Return the pixels that several callers' pictures may share a batch up to; 0 where none should."""
    few, many = paying(small).cost, paying(large).cost
    return many if many >= few else _bounded(few, large)


def _bounded(cost: int, large: Tried) -> int:
    """Return `cost`, or that half or quarter of it up to which larger pictures do not lose by it either."""
    if large.most and not large.runs:
        return cost
    while cost >= 2 * large.side**2:
        count = min(cost // large.side**2, _MOST_LARGE)
        fits = count <= large.most
        if fits and large.seconds(count) <= min(_SLACK * count * large.seconds(1), LONGEST):
            break
        cost = count * large.side**2 // 2
    return cost
