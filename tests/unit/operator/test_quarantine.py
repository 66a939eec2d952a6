"""Quarantine: its budget, its modes, and what a person's annotations do, case by case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from encoder_operator.act import patch_of
from encoder_operator.actions import Cordon, Dismiss, OrderProbe, OrderRestart, Postpone, Release
from encoder_operator.cordon import CordonPlan, cordon
from encoder_operator.judge import judge
from encoder_operator.observation import CordonState, DoneOrder, Identity, ProbeReport, ProbeResult, Replica
from encoder_operator.spec import EncoderPool
from tests.support.pool_objects import a_pool
from tests.support.replicas import (
    NOW,
    a_record,
    a_replica,
    an_identity,
    an_item,
    cordoned,
    counted,
    observed,
    standing,
    with_quarantine,
)


def plan_for(pool: EncoderPool, *replicas: Replica) -> CordonPlan:
    world = observed(replicas)
    return cordon(pool, standing(), world, judge(pool, standing(), world))


def good(name: str) -> Replica:
    return a_replica(name, counts=counted(120))


def bad(name: str, failed: int = 40, **fields: Any) -> Replica:
    return a_replica(name, counts=counted(80, bad=failed), **fields)


def lifted(name: str, since: float) -> Replica:
    return a_replica(name, cordon=a_record(since=NOW - since, state=CordonState.RELEASED, released_at=NOW - since + 1))


OUT = a_record(since=NOW - 100, next_attempt_at=NOW + 50)


@pytest.mark.parametrize(
    ("sentence", "quarantine", "replicas", "chosen", "blocked"),
    [
        ("one at fault is cordoned", {}, [bad("a"), good("b"), good("c")], "a", None),
        ("of several, the worst", {"maxCordoned": 2}, [bad("a", 30), bad("b", 60), good("c"), good("d")], "b", None),
        (
            "20% of three is one: another waits",
            {},
            [cordoned("a", record=OUT), bad("b"), good("c")],
            None,
            ("BudgetExceeded", "b is at fault and serves on: 1 of at most 1 replicas are cordoned (maxCordoned)"),
        ),
        (
            "a cordon by hand is not charged to the budget",
            {},
            [cordoned("a", record=a_record(by="person:to look", since=NOW - 100)), bad("b"), good("c")],
            "b",
            None,
        ),
        (
            "one cordon for each evaluation",
            {"maxCordoned": 2},
            [cordoned("a", record=a_record(since=NOW - 5, next_attempt_at=NOW + 50)), bad("b"), good("c"), good("d")],
            None,
            None,
        ),
        (
            "the next evaluation may cordon the next",
            {"maxCordoned": 2},
            [cordoned("a", record=a_record(since=NOW - 11, next_attempt_at=NOW + 50)), bad("b"), good("c"), good("d")],
            "b",
            None,
        ),
        (
            "no more than twice maxCordoned within maxSeconds, though they were released since",
            {"maxSeconds": 300},
            [lifted("a", 100), lifted("b", 200), bad("c"), good("d")],
            None,
            (
                "BudgetExceeded",
                "2 replicas were cordoned within 300 s, 2 times maxCordoned",
            ),
        ),
        (
            "what was cordoned longer ago counts no more",
            {"maxSeconds": 300},
            [lifted("a", 100), lifted("b", 301), bad("c"), good("d")],
            "c",
            None,
        ),
        (
            "nor what a clock that was wrong put into the future",
            {"maxSeconds": 300},
            [lifted("a", -3600), lifted("b", -3700), bad("c"), good("d")],
            "c",
            None,
        ),
        (
            "minServing others must serve on",
            {"minServing": 2},
            [bad("a"), good("b")],
            None,
            ("MinServing", "a is at fault, but would leave 1 serving, fewer than minServing 2"),
        ),
        ("minServing 0 refuses rather than serves suspect rows", {"minServing": 0}, [bad("a"), good("b")], "a", None),
        (
            "one that is not Ready serves nobody",
            {},
            [bad("a"), a_replica("b", counts=counted(120), ready=False)],
            None,
            ("MinServing", "a is at fault, but would leave 0 serving, fewer than minServing 1"),
        ),
        ("maxCordoned 0 cordons nobody", {"maxCordoned": 0}, [bad("a"), good("b")], None, ("BudgetExceeded", "")),
        ("one that a person said to skip is left alone", {}, [bad("a", skip="mine"), good("b")], None, None),
        ("minServing 0 blames nobody for what all do", {"minServing": 0}, [bad("a"), bad("b")], None, None),
        ("nor a pool of one for itself", {"minServing": 0, "maxCordoned": 1}, [bad("a")], None, None),
    ],
)
def test_the_budget(
    sentence: str,
    quarantine: dict[str, Any],
    replicas: list[Replica],
    chosen: str | None,
    blocked: tuple[str, str] | None,
) -> None:
    found = plan_for(with_quarantine(**quarantine), *replicas)
    cordons = [each.replica.name for each in found.actions if isinstance(each, Cordon)]
    assert cordons == ([chosen] if chosen else []), sentence
    assert (found.blocked is None) == (blocked is None), sentence
    if blocked is not None and found.blocked is not None:
        assert found.blocked.reason == blocked[0], sentence
        assert blocked[1] in found.blocked.message, sentence


def up(**fields: Any) -> Identity:
    return an_identity(state="CORDONED", reason="Cordoned", **fields)


def probed(result: ProbeResult, order_id: str = "probe-1-1") -> Identity:
    report = ProbeReport(result=result, order_id=order_id, items=(an_item(),))
    return up(probe=report, probe_done=DoneOrder(id=order_id, result=result))


HEARD = a_record(since=NOW - 10)


@pytest.mark.parametrize(
    ("sentence", "replica", "expected"),
    [
        ("the running boot is probed as it is", cordoned("a", record=HEARD, identity=up()), OrderProbe),
        ("its probe passed: release", cordoned("a", record=HEARD, identity=probed(ProbeResult.PASSED)), Release),
        ("its probe failed: wait", cordoned("a", record=HEARD, identity=probed(ProbeResult.FAILED)), Postpone),
        (
            "after the wait it is probed again",
            cordoned("a", record=a_record(next_attempt_at=NOW), identity=probed(ProbeResult.FAILED)),
            OrderProbe,
        ),
        ("first it refuses its callers", cordoned("a", record=HEARD, identity=an_identity()), None),
    ],
)
@pytest.mark.parametrize("way", ["mode Cordon", "skip"])
def test_where_nothing_may_be_restarted(sentence: str, replica: Replica, expected: type | None, way: str) -> None:
    pool = with_quarantine(mode="Cordon") if way == "mode Cordon" else with_quarantine()
    said = replica if way == "mode Cordon" else replace(replica, skip="mine")
    found = plan_for(pool, said, good("b")).actions
    assert [type(each) for each in found] == ([expected] if expected else []), sentence


BY_HAND = a_record(by="person:to look at it", reason="HandCordon")
RELEASED = a_record(state=CordonState.RELEASED, released_at=NOW - 5)


@pytest.mark.parametrize(
    ("sentence", "replica", "expected"),
    [
        ("hand-cordon cordons", a_replica(hand_cordon="to look at it"), Cordon),
        ("though it is at fault, it is the person's cordon", bad("a", hand_cordon="to look at it"), Cordon),
        ("while it stands nothing is done", cordoned(record=BY_HAND, hand_cordon="to look at it"), None),
        ("nor on the operator's own ladder", cordoned(record=a_record(next_attempt_at=NOW), hand_cordon=""), None),
        ("a label set back does not lift it", a_replica(cordon=BY_HAND, hand_cordon="to look at it"), Cordon),
        ("once the annotation is gone it is lifted", cordoned(record=BY_HAND), Release),
        ("hand-release lifts the operator's own cordon", cordoned(hand_release="I know better"), Release),
        ("hand-release does not lift another's", cordoned(record=a_record(by="me"), hand_release="no"), Dismiss),
        ("with nothing to lift it is taken away", a_replica(hand_release="too late"), Dismiss),
        ("hand-cordon stands before hand-release", cordoned(hand_cordon="stay", hand_release="go"), None),
        ("a cordon by hand that is over blocks no other", bad("a", cordon=RELEASED), Cordon),
    ],
)
def test_a_persons_annotations(sentence: str, replica: Replica, expected: type | None) -> None:
    for mode in ("Repair", "Cordon"):
        found = plan_for(with_quarantine(mode=mode), replica, good("b")).actions
        assert [type(each) for each in found] == ([expected] if expected else []), sentence


def test_a_cordon_by_hand_says_who_and_why() -> None:
    (action,) = plan_for(with_quarantine(), a_replica(hand_cordon="to look at it")).actions
    assert isinstance(action, Cordon)
    assert (action.record.by, action.record.reason, action.record.message) == (
        "person:to look at it",
        "HandCordon",
        "to look at it",
    )
    assert patch_of(action).labels == {"encoderpool.io/serving": "false"}


def test_a_release_by_hand_is_consumed_in_the_same_patch() -> None:
    (action,) = plan_for(with_quarantine(), cordoned(hand_release="I know better"), good("b")).actions
    assert isinstance(action, Release)
    assert action.record.message.endswith("; released by hand: I know better")
    patch = patch_of(action)
    assert patch.labels == {"encoderpool.io/serving": "true"}
    assert patch.annotations["encoderpool.io/hand-release"] is None
    dismissed = patch_of(Dismiss(replica=a_replica(hand_release="late")))
    assert (dismissed.labels, dismissed.annotations) == ({}, {"encoderpool.io/hand-release": None})


def test_observe_says_what_it_would_do() -> None:
    found = plan_for(with_quarantine(mode="Observe"), bad("a"), good("b"), cordoned("c"))
    assert found.actions == ()
    assert [type(each) for each in found.withheld] == [OrderRestart]
    found = plan_for(with_quarantine(mode="Observe"), bad("a"), good("b"))
    assert [(type(each), each.replica.name) for each in found.withheld] == [(Cordon, "a")]


def test_paused_does_nothing() -> None:
    pool = a_pool(replicas=3, management="Paused", integrity={"minChecks": 20})
    found = plan_for(pool, bad("a"), good("b"), a_replica("c", hand_cordon="now"))
    assert (found.actions, found.withheld, found.blocked, found.next_look_at) == ((), (), None, None)


def test_times_counts_all_cordons_while_those_in_a_row_are_forgotten() -> None:
    before = a_record(state=CordonState.RELEASED, released_at=NOW - 1300, since=NOW - 2000, times=4, in_a_row=4)
    (action,) = plan_for(with_quarantine(), bad("a", cordon=before), good("b")).actions
    assert isinstance(action, Cordon)
    assert (action.record.times, action.record.in_a_row) == (5, 3)
