"""Packing: whatever waits, whatever it costs."""

from hypothesis import given
from hypothesis import strategies as st

from encoder_server.packing import pack

TURNS = st.lists(st.lists(st.integers(1, 100), min_size=1, max_size=6), max_size=8)
BUDGETS = st.integers(1, 200)


@given(TURNS, BUDGETS)
def test_the_budget_holds_unless_one_item_alone_is_over_it(turns: list[list[int]], budget: int) -> None:
    counts = pack(turns, budget)
    taken = [cost for costs, count in zip(turns, counts, strict=True) for cost in costs[:count]]
    assert sum(taken) <= budget or len(taken) == 1


@given(TURNS, BUDGETS)
def test_who_waited_longest_goes_and_the_others_go_whole_or_wait(turns: list[list[int]], budget: int) -> None:
    counts = pack(turns, budget)
    assert len(counts) == len(turns)
    assert not turns or counts[0] >= 1
    assert all(count in (0, len(costs)) for costs, count in zip(turns[1:], counts[1:], strict=True))


@given(TURNS, BUDGETS)
def test_nobody_waits_who_would_have_fitted(turns: list[list[int]], budget: int) -> None:
    counts = pack(turns, budget)
    left = budget - sum(sum(costs[:count]) for costs, count in zip(turns, counts, strict=True))
    assert all(count or sum(costs) > left for costs, count in zip(turns, counts, strict=True))


@given(TURNS, BUDGETS)
def test_packed_again_and_again_every_item_goes_once_and_in_its_callers_order(
    turns: list[list[int]], budget: int
) -> None:
    waiting = [list(enumerate(costs)) for costs in turns]
    gone: list[list[int]] = [[] for _ in turns]
    order = list(range(len(turns)))
    for _ in range(sum(map(len, turns))):
        order = [caller for caller in order if waiting[caller]]
        counts = pack([[cost for _, cost in waiting[caller]] for caller in order], budget)
        for caller, count in zip(order, counts, strict=True):
            gone[caller] += [item for item, _ in waiting[caller][:count]]
            del waiting[caller][:count]
    assert gone == [list(range(len(costs))) for costs in turns]
