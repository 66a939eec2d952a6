"""A store that failed is left alone for a while, longer each time, and asked again in the end."""

from encoder_server.breaker import Breaker

FRESH = Breaker(most_failures=2, least_pause=1.0, most_pause=5.0)


def failed(breaker: Breaker, *times: float) -> Breaker:
    for at in times:
        breaker = breaker.failed(at)
    return breaker


def test_one_failure_is_no_reason_to_stop() -> None:
    once = failed(FRESH, 10.0)
    assert once.allows(10.0)
    assert not once.tripped


def test_pauses_double_with_each_failed_trial_up_to_the_longest() -> None:
    breaker, pauses = failed(FRESH, 0.0), []
    for _ in range(5):
        at = breaker.until
        breaker = breaker.failed(at)
        pauses.append(breaker.until - at)
        assert breaker.tripped
        assert not breaker.allows(breaker.until - 0.01)
        assert breaker.allows(breaker.until)
    assert pauses == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_what_works_closes_it() -> None:
    assert failed(FRESH, 0.0, 0.0, 1.0).worked() == FRESH


def test_a_thousand_failures_still_have_a_number() -> None:
    assert failed(FRESH, *map(float, range(2000))).until == 1999.0 + 5.0
