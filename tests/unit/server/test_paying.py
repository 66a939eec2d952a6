"""How large a batch of several callers pays off, as timed runs say: many of them, or the few of a busy machine."""

from collections.abc import Callable

import pytest

from encoder_server.engine import paying
from encoder_server.engine.paying import ENOUGH, LONGEST, UNNOTICED, Tried, budget

COUNTS = (1, 2, 4, 8, 16, 32, 64)
SMALL, LARGE = 64, 256


def tried(
    side: int, seconds: Callable[[int], float], *, most: int = 64, upto: int = 64, runs: int = ENOUGH, **odd: float
) -> Tried:
    """Runs that took what `seconds` says of their count, but for the odd ones ("n8": every run of eight)."""
    made = {count: [odd.get(f"n{count}", seconds(count))] * runs for count in COUNTS if count <= upto}
    return Tried(side=side, runs=made, most=most)


def each(seconds: float) -> Callable[[int], float]:
    return lambda count: count * seconds


def test_what_was_not_tried_is_taken_to_be_as_dear_as_the_largest_below_it() -> None:
    made = tried(SMALL, each(0.001), upto=4)
    assert [made.seconds(4), made.seconds(16)] == pytest.approx([0.004, 0.016])
    assert paying.paying(made) == paying.paying(tried(SMALL, each(0.001)))


def test_what_was_not_tried_never_takes_longer_than_nobody_notices() -> None:
    made = tried(SMALL, lambda count: 0.03 + count * 0.005, upto=8)
    assert made.seconds(paying.paying(made).count) <= UNNOTICED
    assert paying.paying(tried(SMALL, lambda count: 0.03 + count * 0.005)).count > 8


def test_a_count_that_seems_dearer_by_few_runs_is_in_doubt_and_by_enough_of_them_is_not() -> None:
    by_one = paying.paying(tried(SMALL, each(0.001), runs=1, n8=0.014))
    assert (by_one.count, by_one.doubt) == (4, 8)
    by_enough = paying.paying(tried(SMALL, each(0.001), n8=0.014))
    assert (by_enough.count, by_enough.doubt) == (4, None)


def test_a_little_noise_in_one_run_is_no_reason_to_stop_there() -> None:
    assert paying.paying(tried(SMALL, each(0.001), runs=1, n8=0.0095)).count == 64
    assert paying.paying(tried(SMALL, each(0.001), n8=0.0095)).count == 4


def test_a_busy_machine_that_had_time_for_a_few_runs_decides_as_an_idle_one() -> None:
    def cost(upto: int, runs: int) -> int:
        small = tried(SMALL, lambda count: 0.002 + count * 0.0005, upto=upto, runs=runs)
        large = tried(LARGE, lambda count: 0.002 + count * 0.004, upto=upto, runs=runs)
        return budget(small, large)

    assert {cost(upto, runs) for upto in (8, 16, 64) for runs in (1, 2, ENOUGH)} == {cost(64, ENOUGH)}


def test_large_pictures_that_there_was_no_time_for_take_nothing_from_the_small_ones() -> None:
    small, untried = tried(SMALL, each(0.001)), Tried(side=LARGE, runs={}, most=64)
    assert budget(small, untried) == 64 * SMALL**2
    failed = Tried(side=LARGE, runs={}, most=0)
    assert budget(small, failed) < 2 * LARGE**2


def test_large_pictures_that_lose_by_it_halve_the_budget() -> None:
    small = tried(SMALL, lambda count: 0.0001 + count * 0.0001)
    assert budget(small, tried(LARGE, lambda count: 0.001 * count**2)) < 2 * LARGE**2
    assert budget(small, tried(LARGE, each(0.3))) < 2 * LARGE**2


def test_nothing_is_shared_where_one_alone_takes_long_or_nothing_could_be_run() -> None:
    assert budget(tried(SMALL, each(LONGEST)), tried(LARGE, each(LONGEST))) == 0
    nothing = [Tried(side=side, runs={}, most=0) for side in (SMALL, LARGE)]
    assert budget(*nothing) == 0
