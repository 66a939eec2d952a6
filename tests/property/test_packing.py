"""Packing: whatever waits, whatever it costs, whoever sent it."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from encoder_server.packing import Line, Packed, pack

COSTS = st.lists(st.integers(1, 100), min_size=1, max_size=6).map(tuple)
REQUESTS = st.lists(COSTS, min_size=1, max_size=4).map(tuple)
LINES = st.lists(st.builds(Line, requests=REQUESTS, owed=st.integers(0, 500)), min_size=1, max_size=6)
BUDGETS = st.integers(1, 200)


def taken(lines: Sequence[Line], packed: Packed) -> list[int]:
    """The costs of the batch."""
    return [cost for line, request, count in packed.turns for cost in lines[line].requests[request][:count]]


def cost(lines: Sequence[Line], packed: Packed, line: int) -> int:
    return sum(sum(lines[at].requests[request][:count]) for at, request, count in packed.turns if at == line)


@given(LINES, BUDGETS)
def test_the_budget_holds_unless_one_item_alone_is_over_it(lines: list[Line], budget: int) -> None:
    costs = taken(lines, pack(lines, budget))
    assert sum(costs) <= budget or len(costs) == 1


@given(LINES, BUDGETS, st.integers(0, 200))
def test_no_more_than_a_share_is_taken_unless_one_item_alone_is_over_it(
    lines: list[Line], budget: int, share: int
) -> None:
    packed = pack(lines, budget, share=share)
    assert sum(taken(lines, packed)) <= min(budget, share) or len(taken(lines, packed)) == 1
    assert packed.turns[0][:2] == pack(lines, budget).turns[0][:2], "whose turn it is does not depend on it"


@given(LINES, BUDGETS)
def test_who_waited_longest_and_owes_nothing_goes_and_other_requests_go_whole_or_wait(
    lines: list[Line], budget: int
) -> None:
    packed = pack([replace(lines[0], owed=0), *lines[1:]], budget)
    assert packed.turns[0][:2] == (0, 0)
    assert all(count == len(lines[line].requests[request]) for line, request, count in packed.turns[1:])


@given(LINES, BUDGETS)
def test_nobody_waits_who_would_have_fitted(lines: list[Line], budget: int) -> None:
    packed = pack(lines, budget)
    left = budget - sum(taken(lines, packed))
    gone = {(line, request) for line, request, _ in packed.turns}
    waiting = [costs for at, line in enumerate(lines) for n, costs in enumerate(line.requests) if (at, n) not in gone]
    assert all(sum(costs) > left for costs in waiting)


@given(LINES, BUDGETS)
def test_who_had_nothing_comes_before_who_had_something_and_nobody_is_forgotten(lines: list[Line], budget: int) -> None:
    packed = pack(lines, budget)
    served = [any(line == at for line, _, _ in packed.turns) for at in packed.order]
    assert served == sorted(served)
    assert sorted(packed.order) == list(range(len(lines)))
    assert all(each >= 0 for each in packed.owed)


@given(LINES, BUDGETS)
def test_callers_who_must_not_share_a_batch_get_one_request_at_a_time(lines: list[Line], budget: int) -> None:
    assert len(pack(lines, budget, together=False).turns) == 1


@given(LINES, BUDGETS, st.booleans())
def test_packed_again_and_again_every_item_goes_once_and_in_its_requests_order(
    lines: list[Line], budget: int, together: bool
) -> None:
    gone = drain(lines, budget, together=together)
    assert sorted(gone) == sorted(
        (at, n, item)
        for at, line in enumerate(lines)
        for n, costs in enumerate(line.requests)
        for item in range(len(costs))
    )
    assert all(earlier < later for earlier, later in itertools.pairwise(gone) if earlier[:2] == later[:2])


@given(st.lists(COSTS, min_size=1, max_size=40), COSTS, BUDGETS)
def test_who_sends_little_waits_for_one_batch_of_who_sends_much(
    much: list[tuple[int, ...]], little: tuple[int, ...], budget: int
) -> None:
    """Whether much is many requests, or one: the batch whose turn it was, and then it begins."""
    for requests in (tuple(much), (tuple(cost for costs in much for cost in costs),)):
        first = pack([Line(requests=requests), Line(requests=(little,))], budget)
        assert any(line == 1 for line, _, _ in first.turns) or first.order[0] == 1


@given(st.lists(st.integers(1, 300), min_size=2, max_size=4), BUDGETS, st.integers(2, 40))
def test_callers_who_always_wait_get_like_shares_whatever_their_items_cost(
    prices: list[int], budget: int, rounds: int
) -> None:
    lines = [Line(requests=((price,) * (budget // price + 1),)) for price in prices]
    order = list(range(len(lines)))
    had = [0] * len(lines)
    owed = [0] * len(lines)
    for _ in range(rounds * len(lines)):
        waiting = [replace(lines[at], owed=owed[at]) for at in order]
        packed = pack(waiting, budget, together=False)
        for place, at in enumerate(order):
            had[at] += cost(waiting, packed, place)
            owed[at] = packed.owed[place]
        order = [order[place] for place in packed.order]
    # Whole items fill more than half of a turn, and one item or turn may be ahead.
    assert max(had) <= 2 * min(had) + 2 * (budget + 2 * max(prices))


def drain(lines: Sequence[Line], budget: int, *, together: bool) -> list[tuple[int, int, int]]:
    """Pack until nothing waits: the items (line, request, place) as they went."""
    waiting = {
        at: [(n, list(enumerate(costs))) for n, costs in enumerate(line.requests)] for at, line in enumerate(lines)
    }
    owed = [line.owed for line in lines]
    order = list(waiting)
    gone: list[tuple[int, int, int]] = []
    while order:
        view = [
            Line(requests=tuple(tuple(c for _, c in items) for _, items in waiting[at]), owed=owed[at]) for at in order
        ]
        packed = pack(view, budget, together=together)
        assert packed.turns
        for line, request, count in packed.turns:
            number, items = waiting[order[line]][request]
            gone += [(order[line], number, item) for item, _ in items[:count]]
            del items[:count]
        for place, at in enumerate(order):
            owed[at] = packed.owed[place]
            waiting[at] = [(number, items) for number, items in waiting[at] if items]
        order = [order[place] for place in packed.order if waiting[order[place]]]
    return gone
