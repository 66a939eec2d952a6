"""Cordon: each rung of the ladder, from what the pod says alone."""

from __future__ import annotations

from typing import Any

import pytest

from encoder_operator import vocabulary
from encoder_operator.actions import Action, Cordon, OrderProbe, OrderRestart, Postpone, Release
from encoder_operator.cordon import cordon
from encoder_operator.judge import judge
from encoder_operator.observation import CordonState, DoneOrder, Identity, Order, ProbeReport, ProbeResult, Replica
from encoder_operator.standing import Standing
from tests.support.replicas import (
    FAILED,
    LARGE,
    NOW,
    OTHER_FINGERPRINT,
    POOL,
    a_record,
    a_replica,
    an_identity,
    an_item,
    answered,
    asked,
    cordoned,
    counted,
    observed,
    standing,
    suspect,
)


def decided(*replicas: Replica, at: float = NOW, stands: Standing | None = None) -> tuple[Action, ...]:
    world = observed(replicas, at=at)
    stands = stands or standing()
    return cordon(POOL, stands, world, judge(POOL, stands, world)).actions


def the_action(replica: Replica, **more: Any) -> Action | None:
    actions = decided(replica, a_replica("b", counts=counted(100)), **more)
    assert len(actions) <= 1
    return actions[0] if actions else None


def up(boot_id: str = "boot-2", **fields: Any) -> Identity:
    """A cordoned replica's identity, of another boot than the one that was cordoned."""
    return an_identity(state=vocabulary.STATE_CORDONED, reason="Cordoned", boot_id=boot_id, **fields)


def probed(result: ProbeResult, order_id: str = "probe-1-1", **fields: Any) -> Identity:
    report = ProbeReport(result=result, order_id=order_id, items=(an_item(),))
    return up(probe=report, probe_done=DoneOrder(id=order_id, result=result), **fields)


RESTART = Order(id="restart-1-1", boot_id="boot-1")
PROBE = Order(id="probe-1-1", boot_id="boot-2")


def test_a_mismatching_replica_is_cordoned_with_what_was_measured() -> None:
    victim = suspect("a", LARGE, LARGE, counts=counted(82, bad=38))
    peer = answered(asked(a_replica("b", counts=counted(100)), victim), ProbeResult.PASSED)
    (action,) = decided(victim, peer)
    assert isinstance(action, Cordon)
    record = action.record
    assert (record.by, record.state, record.reason) == (
        vocabulary.FIELD_MANAGER,
        CordonState.CORDONED,
        "TokenMismatch",
    )
    assert record.message.startswith("38 of 120 checks failed")
    assert (record.since, record.times, record.attempt, record.attempt_boot_id) == (NOW, 1, 1, "boot-of-a")
    assert record.sizes == (LARGE,)


def test_a_cordon_after_a_release_counts_once_more() -> None:
    before = a_record(state=CordonState.RELEASED, released_at=NOW - 100, times=4)
    action = the_action(a_replica(counts=counted(82, bad=38), cordon=before))
    assert isinstance(action, Cordon)
    assert (action.record.times, action.record.attempt, action.record.released_at) == (5, 1, None)


@pytest.mark.parametrize(
    ("sentence", "replica", "expected"),
    [
        ("first, the running boot is ordered to restart", cordoned(), (OrderRestart, "restart-1-1", "boot-1")),
        ("an order that stands is not given again", cordoned(restart_order=RESTART), None),
        (
            "an order for another boot does not count as given",
            cordoned(restart_order=Order(id="restart-1-1", boot_id="boot-0")),
            (OrderRestart, "restart-1-1", "boot-1"),
        ),
        ("while it is away nothing is done", cordoned(identity=None), None),
        (
            "while it loads nothing is done",
            cordoned(identity=up(fingerprint=None, signature=None, probe=None)),
            None,
        ),
        (
            "while its golden probe runs nothing is done",
            cordoned(identity=up(probe=ProbeReport(result=ProbeResult.RUNNING, order_id=None, items=()))),
            None,
        ),
        ("up and as expected, it is ordered to probe", cordoned(identity=up()), (OrderProbe, "probe-1-1", "boot-2")),
        ("a probe order that stands is not given again", cordoned(identity=up(), probe_order=PROBE), None),
        (
            "a crash after the order means another boot, and the order again",
            cordoned(identity=up("boot-3"), probe_order=PROBE),
            (OrderProbe, "probe-1-1", "boot-3"),
        ),
        (
            "while the ordered probe runs nothing is done",
            cordoned(identity=probed(ProbeResult.RUNNING), probe_order=PROBE),
            None,
        ),
        ("the ordered probe passed: release", cordoned(identity=probed(ProbeResult.PASSED)), (Release,)),
        (
            "another attempt's probe releases nobody",
            cordoned(identity=probed(ProbeResult.PASSED, "probe-1-7")),
            (OrderProbe, "probe-1-1", "boot-2"),
        ),
        ("the ordered probe failed: wait", cordoned(identity=probed(ProbeResult.FAILED)), (Postpone,)),
        ("the golden probe failed: wait", cordoned(identity=up(probe=FAILED)), (Postpone,)),
        (
            "another identity: wait, though the ordered probe passed",
            cordoned(identity=probed(ProbeResult.PASSED, fingerprint=OTHER_FINGERPRINT)),
            (Postpone,),
        ),
        (
            "a draining server is left alone",
            cordoned(identity=an_identity(state="DRAINING", boot_id="boot-2")),
            None,
        ),
        (
            "a boot that cannot load is a failed attempt: wait",
            cordoned(
                identity=an_identity(
                    state="FAILED", reason="LoadFailed", boot_id="boot-2", fingerprint=None, probe=None
                )
            ),
            (Postpone,),
        ),
        (
            "one that has just been cordoned first refuses its callers",
            cordoned(record=a_record(since=NOW - 1), identity=an_identity()),
            None,
        ),
        (
            "one that never hears of its cordon, its label being gone, is restarted all the same",
            cordoned(record=a_record(since=NOW - 300), identity=an_identity()),
            (OrderRestart, "restart-1-1", "boot-1"),
        ),
        (
            "before its time no attempt is begun",
            cordoned(record=a_record(next_attempt_at=NOW + 1), identity=probed(ProbeResult.PASSED)),
            None,
        ),
        (
            "at its time the next attempt restarts again",
            cordoned(record=a_record(next_attempt_at=NOW), identity=up()),
            (OrderRestart, "restart-1-2", "boot-2"),
        ),
        ("a label set back by hand is a person's release", a_replica(cordon=a_record()), (Release,)),
        ("another's cordon is left alone", cordoned(record=a_record(by="somebody")), None),
        ("a person's cordon is left alone", a_replica(serving=False, ready=False), None),
        (
            "a person's cordon after a release of ours is left alone",
            cordoned(record=a_record(state=CordonState.RELEASED, released_at=NOW - 5)),
            None,
        ),
    ],
)
def test_the_ladder(sentence: str, replica: Replica, expected: tuple[Any, ...] | None) -> None:
    action = the_action(replica)
    match action:
        case None:
            found: tuple[Any, ...] | None = None
        case OrderRestart() | OrderProbe():
            found = (type(action), action.order.id, action.order.boot_id)
        case _:
            found = (type(action),)
    assert found == expected, sentence


def test_without_a_known_identity_nothing_is_released() -> None:
    assert the_action(cordoned(identity=probed(ProbeResult.PASSED)), stands=standing(None)) is None


def test_a_release_keeps_times_and_tells_when() -> None:
    action = the_action(cordoned(record=a_record(times=3), identity=probed(ProbeResult.PASSED, "probe-3-1")))
    assert isinstance(action, Release)
    assert (action.record.state, action.record.times, action.record.released_at) == (CordonState.RELEASED, 3, NOW)


@pytest.mark.parametrize(
    ("attempt", "in_a_row", "longest"), [(1, 1, 30.0), (2, 1, 60.0), (1, 3, 90.0), (20, 1, 600.0), (21, 2, 600.0)]
)
def test_each_attempt_and_each_cordon_in_a_row_waits_longer_up_to_the_limit(
    attempt: int, in_a_row: int, longest: float
) -> None:
    failed = probed(ProbeResult.FAILED, f"probe-1-{attempt}")
    action = the_action(cordoned(record=a_record(attempt=attempt, in_a_row=in_a_row), identity=failed))
    assert isinstance(action, Postpone)
    assert action.record.next_attempt_at is not None
    assert longest - 7.5 <= action.record.next_attempt_at - NOW <= longest


def test_the_next_look_is_at_the_earliest_attempt() -> None:
    replicas = [
        cordoned("a", record=a_record(next_attempt_at=NOW + 40)),
        cordoned("b", record=a_record(next_attempt_at=NOW + 20)),
        cordoned("c", record=a_record(by="somebody", next_attempt_at=NOW + 1)),
    ]
    world = observed(replicas)
    assert cordon(POOL, standing(), world, judge(POOL, standing(), world)).next_look_at == NOW + 20


@pytest.mark.parametrize("reason", ["RevisionFault", "CallerFault"])
def test_nobody_is_cordoned_for_what_all_do(reason: str) -> None:
    media = 5 if reason == "RevisionFault" else 1
    replicas = [a_replica(name, counts=counted(50, bad=50, media=media)) for name in "abc"]
    world = observed(replicas)
    assert judge(POOL, standing(), world).pool.reason == reason
    assert decided(*replicas) == ()
