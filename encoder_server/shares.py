"""Shares: when a caller that has its part of the places gives way to others that get none.

Place: asked by `admission` for each request. Pure. Must never: refuse a caller who is alone, or one for the sake of who
has as much.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping


def gives_way(caller: str, held: Mapping[str, int], waiting: Collection[str], places: int) -> int | None:
    """Return the share that `caller` has had, where it must leave what is free to others; None where it need not.

    `held` has how many places each caller has, of those that have any; `waiting` are those that were refused lately.
    Nobody gives way but to one that has less than its share: an equal part of the places, and at least one.
    """
    share = max(1, places // len({*held, *waiting, caller}))
    if held.get(caller, 0) < share:
        return None
    return share if any(held.get(each, 0) < share for each in waiting if each != caller) else None
