"""Permits: bounded, and given back once."""

import pytest

from encoder_server.admission import Admission
from encoder_server.errors import HeldError, OverloadedError
from encoder_server.shares import gives_way


def open_gate() -> None:
    return None


async def test_permits_are_bounded_by_count_and_by_bytes() -> None:
    admission = Admission(2, 100, open_gate)
    first = admission.admit(60, 1, "a")
    with pytest.raises(OverloadedError, match="bytes"):
        admission.admit(50, 1, "a")
    second = admission.admit(40, 1, "a")
    with pytest.raises(OverloadedError, match="requests"):
        admission.admit(0, 1, "a")
    first.release()
    second.release()
    assert (admission.in_flight, admission.bytes_in_flight) == (0, 0)


async def test_a_permit_is_given_back_once_whatever_is_called() -> None:
    admission = Admission(2, 100, open_gate)
    with admission.admit(60, 1, "a") as permit:
        permit.resize(10)
        assert admission.bytes_in_flight == 10
        permit.release()
    permit.release()
    permit.resize(50)
    assert (admission.in_flight, admission.bytes_in_flight) == (0, 0)
    await admission.wait_until_idle()


async def test_a_closed_gate_says_why() -> None:
    def held() -> HeldError:
        return HeldError("not admitted")

    with pytest.raises(HeldError):
        Admission(2, 100, held).admit(0, 1, "a")


async def test_one_caller_alone_may_have_every_place() -> None:
    admission = Admission(4, 100, open_gate)
    permits = [admission.admit(0, 1, "a") for _ in range(4)]
    with pytest.raises(OverloadedError, match="the limit is 4"):
        admission.admit(0, 1, "a")
    permits.pop().release()
    admission.admit(0, 1, "a")


async def test_what_becomes_free_is_for_who_was_refused_before_it_is_for_who_has_its_share() -> None:
    admission = Admission(4, 100, open_gate)
    permits = [admission.admit(0, 1, "a") for _ in range(4)]
    with pytest.raises(OverloadedError):
        admission.admit(0, 1, "b")
    permits.pop().release()
    with pytest.raises(OverloadedError, match=r"3 requests of this caller .* its share of 4 is 2"):
        admission.admit(0, 1, "a")
    admission.admit(0, 1, "b").release()
    # Nobody waits any more.
    admission.admit(0, 1, "a")


async def test_who_was_refused_and_does_not_come_again_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("encoder_server.admission._WAITING_SECONDS", 0.0)
    admission = Admission(2, 100, open_gate)
    permits = [admission.admit(0, 1, "a") for _ in range(2)]
    with pytest.raises(OverloadedError):
        admission.admit(0, 1, "b")
    permits.pop().release()
    admission.admit(0, 1, "a")


@pytest.mark.parametrize(
    ("held", "waiting", "share"),
    [
        ({"a": 4}, (), None),
        ({"a": 4}, ("a",), None),
        ({"a": 4}, ("b",), 2),
        ({"a": 1}, ("b",), None),
        ({"a": 2, "b": 2}, ("b",), None),
        ({"a": 3, "b": 1}, ("b",), 2),
        ({"a": 1, "b": 1, "c": 1, "d": 1}, ("e", "f"), 1),
    ],
)
def test_a_caller_gives_way_where_it_has_its_share_and_another_waits_that_has_not(
    held: dict[str, int], waiting: tuple[str, ...], share: int | None
) -> None:
    assert gives_way("a", held, waiting, 4) == share
