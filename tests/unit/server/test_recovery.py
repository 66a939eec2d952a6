"""What may be hoped of engines that are gone."""

import math

from encoder_server.recovery import Prospect, back_at, backoff, is_for_good, is_steady, is_stuck_for_good


def gone(earliest: float, *, failed: bool = False) -> Prospect:
    return Prospect(ready=False, failed=failed, earliest=earliest)


SERVING = Prospect(ready=True, failed=False, earliest=0)


def test_the_pause_doubles_up_to_a_minute() -> None:
    pauses = [0.0]
    for _ in range(8):
        pauses.append(backoff(pauses[-1], 1))
    assert pauses[1:] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_the_first_start_after_a_loss_is_hoped_for_and_one_that_failed_is_not() -> None:
    assert back_at([gone(7)]) == 7
    assert back_at([gone(7, failed=True)]) == math.inf
    assert back_at([gone(7, failed=True), gone(9)]) == 9
    assert back_at([gone(7, failed=True), SERVING]) == -math.inf


def test_an_engine_that_came_and_went_without_serving_was_not_back() -> None:
    assert not is_steady(129, 130, patience=60)
    assert is_steady(129, 400, patience=60)


def test_engines_are_lost_for_good_after_the_patience_and_the_time_of_two_starts() -> None:
    assert not is_for_good([2, 3], 100, 100 + 120 + 2 * 45, patience=120, start_seconds=45)
    assert is_for_good([2, 3], 100, 100 + 120 + 2 * 45 + 1, patience=120, start_seconds=45)


def test_an_engine_on_its_first_way_back_takes_the_time_it_takes() -> None:
    assert not is_for_good([2, 1], 100, 10_000, patience=120, start_seconds=45)


def test_engines_are_stuck_for_good_when_batches_begin_and_none_ends_for_the_patience_and_a_batch() -> None:
    assert is_stuck_for_good(2, 100, 100 + 120 + 65 + 1, patience=120, longest=65)
    assert not is_stuck_for_good(2, 100, 100 + 120 + 65, patience=120, longest=65)
    assert not is_stuck_for_good(1, 100, 10_000, patience=120, longest=65)
