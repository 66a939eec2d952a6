"""Packing: which waiting items share the next batch, by what they cost and by whose they are.

Place: asked by `batcher` whenever an engine is free. Pure.

Callers take turns (deficit round robin): the one whose turn it is gets a batch's worth, whatever others sent; then
it goes behind those who had none. Who sends little waits for the batch under way, and for one of each caller ahead;
not for what one of them has queued. Whoever's item was dearer than a batch owes what was over, and is passed over
until it is paid, while others wait.

Must never: leave out the caller whose turn it is, or look at anything but costs, callers and their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A caller's waiting requests, none of them empty, in the order of their turns: the cost of each item. `owed` is
    what it has had beyond its turns."""

    requests: tuple[tuple[int, ...], ...]
    owed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """The next batch. `turns`: (line, request, how many of its leading items), in the order of the batch; `owed` is
    what each line owes from then on, and `order` has the lines in the order of their next turns."""

    turns: tuple[tuple[int, int, int], ...]
    owed: tuple[int, ...]
    order: tuple[int, ...]


def pack(lines: Sequence[Line], budget: int, *, together: bool = True, share: int | None = None) -> Packed:
    """Return what goes into the next batch of at most `budget`, where `lines` are in the order of their turns.

    The first line that owes less than a turn is the one whose turn it is: the first item of its first request goes
    whatever it costs, and the request is split where it does not fit whole. Other requests go whole or wait, so that
    their promises come together; one of each line before a second of any. Not `together`: none goes beside the first.
    `share`: no more than that is taken, but for one item, where another engine is free to take the rest.
    """
    if not lines:
        return Packed(turns=(), owed=(), order=())
    first, owed = _whose_turn(lines, budget)
    order = [*range(first, len(lines)), *range(first)]
    turns: list[tuple[int, int, int]] = []
    had: dict[int, int] = {}
    left = budget if share is None else min(budget, share)
    for line, request in _by_turns(lines, order):
        costs = lines[line].requests[request]
        taken, cost = len(costs), sum(costs)
        if cost > left:
            if turns:
                continue
            taken = max(1, _fitting(costs, left))
            cost = sum(costs[:taken])
        turns.append((line, request, taken))
        had[line] = had.get(line, 0) + cost
        left -= cost
        if left <= 0 or not together:
            break
    for line, cost in had.items():
        if line == first:
            owed[line] = max(0, owed[line] + cost - budget)
        elif owed[line]:
            owed[line] += cost
    later = [line for line in order if line not in had] + [line for line in order if line in had]
    return Packed(turns=tuple(turns), owed=tuple(owed), order=tuple(later))


def _whose_turn(lines: Sequence[Line], budget: int) -> tuple[int, list[int]]:
    """Return the line whose turn it is, and what each owes after those before it were passed over."""
    owed = [line.owed for line in lines]
    rounds = min(owed) // budget  # In so many rounds all of them would be passed over.
    owed = [each - rounds * budget for each in owed]
    for at, each in enumerate(owed):
        if each < budget:
            return at, owed
        owed[at] -= budget
    raise AssertionError("somebody owes less than a turn")


def _by_turns(lines: Sequence[Line], order: Sequence[int]) -> Iterator[tuple[int, int]]:
    most = max(len(line.requests) for line in lines)
    return ((line, request) for request in range(most) for line in order if request < len(lines[line].requests))


def _fitting(costs: Sequence[int], budget: int) -> int:
    for count, cost in enumerate(costs):
        budget -= cost
        if budget < 0:
            return count
    return len(costs)
