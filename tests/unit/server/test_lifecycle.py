"""The table of states."""

import json
import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from encoder_server import lifecycle
from encoder_server.engine.asides import STAGES
from encoder_server.identity import Verdict
from encoder_server.lifecycle import TABLE, Facts, Fault, State, refusal, stand

REASONS = json.loads((Path(__file__).parents[2] / "contract" / "vocabulary.json").read_text())["serverStateReasons"]
GOOD = Verdict(admitted=True, reason="AsExpected", message="as expected")
BAD = Verdict(admitted=False, reason="ProbeFailed", message="64 for 16")
VERDICTS = (GOOD, *(replace(BAD, reason=reason) for reason in REASONS["HELD"]))
UNLOADED = Fault(reason="LoadFailed", message="config.json has no model_type")
LOST = Fault(reason="EngineLost", message="gone")
SERVING = Facts(draining=None, engine_ready=True, stage=None, fault=None, cordoned=False, verdict=GOOD)


def state(**changes: Any) -> State:
    return stand(replace(SERVING, **changes)).state


def test_all_good_is_ready_and_ready_alone_serves() -> None:
    assert state() is State.READY
    assert refusal(stand(SERVING)) is None


def test_each_missing_thing_has_its_state() -> None:
    assert state(engine_ready=False) is State.STARTING
    assert state(engine_ready=False, stage="loading") is State.STARTING
    assert state(engine_ready=False, stage="probing") is State.WARMING
    assert state(engine_ready=False, fault=LOST) is State.FAILED
    assert state(verdict=None) is State.WARMING
    assert state(verdict=BAD) is State.HELD
    assert state(cordoned=True) is State.CORDONED
    assert state(draining="signal SIGTERM") is State.DRAINING


def test_the_cordon_stays_whatever_a_probe_found_but_not_over_a_missing_engine() -> None:
    assert state(cordoned=True, verdict=BAD) is State.CORDONED
    assert state(cordoned=True, engine_ready=False, fault=LOST) is State.FAILED


def all_facts() -> list[Facts]:
    return [
        Facts(draining=draining, engine_ready=ready, stage=stage, fault=fault, cordoned=cordoned, verdict=verdict)
        for draining, ready, stage, fault, cordoned, verdict in product(
            (None, "why"), (True, False), (None, *STAGES), (None, LOST, UNLOADED), (True, False), (None, *VERDICTS)
        )
    ]


def test_every_combination_has_a_state_of_the_contract_and_serves_only_when_ready() -> None:
    for facts in all_facts():
        standing = stand(facts)
        assert standing.reason in REASONS[standing.state.value]
        assert standing.message
        assert (refusal(standing) is None) == (standing.state is State.READY)


def test_each_row_of_the_table_is_reached_and_so_is_every_state_and_reason_of_the_contract() -> None:
    rows = {next(at for at, row in enumerate(TABLE) if row.applies(facts)) for facts in all_facts()}
    assert rows == set(range(len(TABLE)))
    reached = {(standing.state.value, standing.reason) for standing in map(stand, all_facts())}
    assert reached == {(state, reason) for state, reasons in REASONS.items() for reason in reasons}


def test_the_order_of_the_table_is_the_precedence_that_is_stated() -> None:
    stated = re.findall(r"^\| ([A-Z]+) \|", lifecycle.__doc__ or "", re.MULTILINE)
    assert stated == [row.state.value for row in TABLE]


def test_ready_means_that_nothing_speaks_against_it() -> None:
    ready = [facts for facts in all_facts() if stand(facts).state is State.READY]
    assert all(facts.engine_ready and not facts.cordoned and facts.draining is None for facts in ready)
    assert all(facts.verdict is not None and facts.verdict.admitted for facts in ready)
