"""The audit's decisions on audio: which lengths are swept."""

from __future__ import annotations

import pytest

from encoder_server.conformance.geometry import Axis
from encoder_server.conformance.sounds import sound_cases

RATE, STEP, EDGE = 16_000, 160, 12_345
AXIS = Axis(base=RATE, across=0, factor=STEP, edges=(EDGE,))


def lengths(*, quick: bool) -> set[int]:
    return {case.runs[0][0].samples for case in sound_cases(AXIS, quick=quick)}


def test_lengths_are_swept_within_a_step_around_whole_seconds_and_on_both_sides_of_each_edge() -> None:
    swept = lengths(quick=False)
    assert {at * STEP + by for at in range(1, 19) for by in (-1, 0, 1)} <= swept
    assert {at * RATE + by for at in range(1, 36) for by in (-STEP, -1, 0, 1, STEP)} <= swept
    assert {EDGE - 1, EDGE, EDGE + 1} <= swept
    assert {length % STEP for length in swept if RATE <= length < RATE + STEP} >= set(range(0, STEP, 5))


@pytest.mark.parametrize("quick", [False, True])
def test_both_sides_of_half_a_minute_are_swept(quick: bool) -> None:
    assert {30 * RATE - 1, 30 * RATE, 30 * RATE + 1} <= lengths(quick=quick)
