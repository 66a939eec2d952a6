"""Packing: which waiting items share the next batch, by what they cost.

Place: asked by `batcher` whenever an engine is free. Pure.
Must never: leave the longest waiting caller out, or look at anything but costs and their order.
"""

from __future__ import annotations

from collections.abc import Sequence


def pack(turns: Sequence[Sequence[int]], budget: int) -> tuple[int, ...]:
    """Return how many leading items of each turn go into the next batch; together they cost at most `budget`.

    A turn is one caller's waiting items, by cost, and the first turn has waited longest: its first item goes
    whatever it costs, and the turn is split where it does not fit whole. Another goes whole or waits, so that
    its promises come together.
    """
    counts: list[int] = []
    left = budget
    for place, costs in enumerate(turns):
        taken = len(costs) if sum(costs) <= left else 0
        if place == 0 and costs and not taken:
            taken = max(1, _fitting(costs, left))
        left -= sum(costs[:taken])
        counts.append(taken)
    return tuple(counts)


def _fitting(costs: Sequence[int], budget: int) -> int:
    for count, cost in enumerate(costs):
        budget -= cost
        if budget < 0:
            return count
    return len(costs)
