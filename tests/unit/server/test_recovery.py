"""What may be hoped of engines that are gone."""

import math

from encoder_server.recovery import Labour, Prospect, back_at, backoff, is_for_good, is_steady


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


def in_vain(labour: Labour, now: float, *, idle: bool = False) -> bool:
    return labour.is_in_vain(now, patience=120, longest=65, idle=idle)


def test_labour_is_in_vain_when_batches_begin_and_none_is_done_for_the_patience_and_a_batch() -> None:
    labour = Labour().begin(100, 120).end(165, done=False).begin(170, 120)
    assert not in_vain(labour, 100 + 120 + 65)
    assert in_vain(labour, 100 + 120 + 65 + 1)
    assert not in_vain(labour.end(280, done=True), 10_000)
    assert not in_vain(labour.end(235, done=True).begin(240, 120), 10_000)


def test_one_batch_is_never_in_vain_and_an_idle_engine_is_not_either() -> None:
    labour = Labour().begin(100, 120)
    assert not in_vain(labour, 10_000)
    twice = labour.end(165, done=False).begin(170, 120).end(235, done=False)
    assert in_vain(twice, 10_000)
    assert not in_vain(twice, 10_000, idle=True)


def test_failures_with_a_long_pause_between_them_do_not_add_up() -> None:
    labour = Labour().begin(100, 120).end(165, done=False).begin(4000, 120)
    assert (labour.batches, labour.since) == (1, 4000)
