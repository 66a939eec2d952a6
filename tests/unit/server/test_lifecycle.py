"""The table of states."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from encoder_server.identity import Verdict
from encoder_server.lifecycle import Facts, Fault, State, refusal, stand

REASONS = json.loads((Path(__file__).parents[2] / "contract" / "vocabulary.json").read_text())["serverStateReasons"]
GOOD = Verdict(admitted=True, reason="AsExpected", message="as expected")
BAD = Verdict(admitted=False, reason="ProbeFailed", message="64 for 16")
LOST = Fault(reason="EngineLost", message="gone")
SERVING = Facts(draining=None, engine_ready=True, fault=None, cordoned=False, verdict=GOOD)


def state(**changes: Any) -> State:
    return stand(replace(SERVING, **changes)).state


def test_all_good_is_ready_and_ready_alone_serves() -> None:
    assert state() is State.READY
    assert refusal(stand(SERVING)) is None


def test_each_missing_thing_has_its_state() -> None:
    assert state(engine_ready=False) is State.STARTING
    assert state(engine_ready=False, fault=LOST) is State.FAILED
    assert state(verdict=None) is State.WARMING
    assert state(verdict=BAD) is State.HELD
    assert state(cordoned=True) is State.CORDONED
    assert state(draining="signal SIGTERM") is State.DRAINING


def test_the_cordon_stays_whatever_a_probe_found_but_not_over_a_missing_engine() -> None:
    assert state(cordoned=True, verdict=BAD) is State.CORDONED
    assert state(cordoned=True, engine_ready=False, fault=LOST) is State.FAILED


def test_every_combination_has_a_state_of_the_contract_and_serves_only_when_ready() -> None:
    verdicts = (None, GOOD, BAD)
    for draining, ready, fault, cordoned, verdict in product(
        (None, "why"), (True, False), (None, LOST), (True, False), verdicts
    ):
        standing = stand(Facts(draining=draining, engine_ready=ready, fault=fault, cordoned=cordoned, verdict=verdict))
        assert standing.reason in REASONS[standing.state.value]
        assert (refusal(standing) is None) == (standing.state is State.READY)
