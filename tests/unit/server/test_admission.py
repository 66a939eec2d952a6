"""Permits: bounded, and given back once."""

import pytest

from encoder_server.admission import Admission
from encoder_server.errors import HeldError, OverloadedError


def open_gate() -> None:
    return None


async def test_permits_are_bounded_by_count_and_by_bytes() -> None:
    admission = Admission(2, 100, open_gate)
    first = admission.admit(60, 1)
    with pytest.raises(OverloadedError, match="bytes"):
        admission.admit(50, 1)
    second = admission.admit(40, 1)
    with pytest.raises(OverloadedError, match="requests"):
        admission.admit(0, 1)
    first.release()
    second.release()
    assert (admission.in_flight, admission.bytes_in_flight) == (0, 0)


async def test_a_permit_is_given_back_once_whatever_is_called() -> None:
    admission = Admission(2, 100, open_gate)
    with admission.admit(60, 1) as permit:
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
        Admission(2, 100, held).admit(0, 1)
