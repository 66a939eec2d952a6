"""Repair: which running engine is ended, and what the others show meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from encoder_server.engine.messages import Probed
from encoder_server.repair import Showings, strayed
from tests.unit.server.test_identity import FAR, GOLDEN, MEASURED, NEAR, probed


@pytest.mark.parametrize("good", [probed(GOLDEN), probed(GOLDEN, signature=NEAR)])
def test_an_engine_that_is_what_it_was_goes_on(good: Probed) -> None:
    assert strayed(MEASURED, good) is None


def test_one_that_is_not_is_named_with_what_it_shows() -> None:
    assert str(strayed(MEASURED, probed(GOLDEN, signature=FAR))).startswith("SignatureDrift: ")
    assert str(strayed(MEASURED, probed(replace(GOLDEN, result="count")))).startswith("ProbeFailed: ")
    assert str(strayed(MEASURED, probed(replace(GOLDEN, promised=5)))).startswith("FingerprintDrift")


def test_what_failed_from_the_start_is_no_reason() -> None:
    failed = replace(GOLDEN, result="count")
    assert strayed(replace(MEASURED, probe=(failed,)), probed(failed, signature=None)) is None


def test_of_engines_that_are_gone_nothing_is_shown() -> None:
    showings = Showings()
    assert showings.golden(None) is None
    for engine in (0, 1):
        showings.begin(engine, MEASURED)
    showings.add(1, probed(GOLDEN, signature=FAR))
    worst = showings.golden(MEASURED)
    assert worst is not None
    assert worst.signature == FAR
    showings.keep([0])
    rest = showings.golden(MEASURED)
    assert rest is not None
    assert rest.signature == MEASURED.signature
