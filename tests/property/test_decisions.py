"""Properties of judge, cordon and status that hold in any world."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from encoder_operator import vocabulary
from encoder_operator.act import patch_of
from encoder_operator.actions import Action, AskPeer, Cordon, Dismiss, OrderFlush, OrderProbe, OrderRestart, Release
from encoder_operator.cordon import cordon
from encoder_operator.hand import is_cordoned_by_hand
from encoder_operator.judge import judge
from encoder_operator.observation import (
    CordonState,
    DoneOrder,
    Observation,
    ProbeResult,
    Replica,
)
from encoder_operator.orders import (
    parse_flush,
    parse_order,
    parse_question,
    parse_record,
    render_flush,
    render_probe,
    render_record,
    render_restart,
)
from encoder_operator.spec import EncoderPool, Mode
from encoder_operator.standing import Standing
from encoder_operator.status import status
from encoder_operator.verdict import Judgement, Result, Scope, Verdict
from tests.support.replicas import (
    FAILED,
    NOW,
    with_status,
)
from tests.support.worlds import HEARINGS, POOLS, STANDINGS, worlds

RANK = {Result.GOOD: 0, Result.UNKNOWN: 1, Result.BAD: 2}


def verdict_of(judgement: Judgement, name: str) -> Verdict:
    return next(each for each in judgement.replicas if each.subject == name)


@given(POOLS, STANDINGS, st.one_of(worlds(), HEARINGS))
def test_every_replica_gets_one_verdict_with_a_known_reason(
    pool: EncoderPool, stands: Standing, world: Observation
) -> None:
    found = judge(pool, stands, world)
    assert sorted(each.subject for each in found.replicas) == sorted(each.name for each in world.replicas)
    assert [each.subject for each in found.revisions] == [each.hash for each in stands.revisions]
    assert all(each.reason in vocabulary.REASONS for each in (*found.replicas, *found.revisions, found.pool))


@given(POOLS, STANDINGS, st.one_of(worlds(), HEARINGS), st.randoms(use_true_random=False))
def test_the_order_of_replicas_decides_nothing(
    pool: EncoderPool, stands: Standing, world: Observation, order: random.Random
) -> None:
    shuffled = list(world.replicas)
    order.shuffle(shuffled)
    first, second = judge(pool, stands, world), judge(pool, stands, replace(world, replicas=tuple(shuffled)))
    assert _told(first) == _told(second)


def _told(judgement: Judgement) -> list[tuple[str, str, str]]:
    verdicts = sorted(judgement.replicas, key=lambda each: each.subject)
    return [(each.subject, each.result.value, each.reason) for each in (*verdicts, judgement.pool)]


@given(POOLS, STANDINGS, st.one_of(worlds(), HEARINGS), st.data())
def test_a_failing_signal_never_improves_a_verdict(
    pool: EncoderPool, stands: Standing, world: Observation, data: st.DataObject
) -> None:
    if not world.replicas:
        return
    index = data.draw(st.integers(0, len(world.replicas) - 1))
    before = world.replicas[index]
    after = data.draw(st.sampled_from(_worse(before)))
    worse = tuple(after if each is before else each for each in world.replicas)
    one = verdict_of(judge(pool, stands, world), before.name)
    other = verdict_of(judge(pool, stands, replace(world, replicas=worse)), before.name)
    assert RANK[other.result] >= RANK[one.result]


def _worse(replica: Replica) -> list[Replica]:
    made = [replica]
    if replica.identity is not None:
        made.append(replace(replica, identity=replace(replica.identity, probe=FAILED)))
    if replica.counts is not None:
        known = replica.counts
        more = replace(
            known,
            bad={**known.bad, "count": known.bad["count"] + 7},
            points=(*known.points[:-1], replace(known.points[-1], bad=known.points[-1].bad + 7)),
            distinct_media=known.distinct_media + 1,
        )
        made.append(replace(replica, counts=more))
    return made


@given(POOLS, STANDINGS, worlds())
def test_only_a_serving_ready_replica_that_is_itself_at_fault_is_cordoned(
    pool: EncoderPool, stands: Standing, world: Observation
) -> None:
    found = judge(pool, stands, world)
    for action in cordon(pool, stands, world, found).actions:
        if isinstance(action, Cordon) and action.record.by == vocabulary.FIELD_MANAGER:
            verdict = verdict_of(found, action.replica.name)
            assert (verdict.result, verdict.scope) == (Result.BAD, Scope.REPLICA)
            assert action.replica.identity is not None
            assert action.replica.identity.state == vocabulary.STATE_READY
            assert any(each.serving and each.name != action.replica.name for each in world.replicas)


@given(POOLS, STANDINGS, worlds())
def test_another_ones_cordon_is_never_acted_on(pool: EncoderPool, stands: Standing, world: Observation) -> None:
    for action in cordon(pool, stands, world, judge(pool, stands, world)).actions:
        replica, record = action.replica, action.replica.cordon
        assert replica.serving or not isinstance(action, AskPeer)
        if not replica.serving and not isinstance(action, Dismiss | OrderFlush):
            assert record is not None
            assert record.state is CordonState.CORDONED
            assert record.by == vocabulary.FIELD_MANAGER or is_cordoned_by_hand(replica)


@given(POOLS, STANDINGS, worlds())
def test_out_only_by_a_passing_probe_of_this_boot_and_a_matching_identity(
    pool: EncoderPool, stands: Standing, world: Observation
) -> None:
    for action in cordon(pool, stands, world, judge(pool, stands, world)).actions:
        by_person = is_cordoned_by_hand(action.replica) or action.replica.hand_release is not None
        if isinstance(action, Release) and not action.replica.serving and not by_person:
            identity, record = action.replica.identity, action.replica.cordon
            assert identity is not None
            assert record is not None
            assert identity.probe_done == DoneOrder(
                id=f"probe-{record.times}-{record.attempt}", result=ProbeResult.PASSED
            )
            restarts = pool.spec.quarantine.mode is Mode.REPAIR and action.replica.skip is None
            assert identity.boot_id != record.attempt_boot_id or not restarts
            expected = stands.revisions[0].expected
            assert expected is None or identity.fingerprint == expected.fingerprint


def _after(action: Action) -> Replica:
    """The pod as it is read after the action's patch, through the annotations' text."""
    if isinstance(action, Dismiss):
        return replace(action.replica, hand_release=None)
    if isinstance(action, AskPeer):
        text = patch_of(action).annotations[vocabulary.ANNOTATION_ORDER_PROBE]
        return replace(action.replica, probe_order=parse_order(text), question=parse_question(text))
    if isinstance(action, OrderFlush):
        return replace(action.replica, flush_order=parse_flush(render_flush(action.order)))
    record = parse_record(render_record(action.record))
    replica = replace(action.replica, cordon=record)
    match action:
        case Cordon():
            return replace(replica, serving=False)
        case OrderRestart():
            return replace(replica, restart_order=parse_order(render_restart(action.order)))
        case OrderProbe():
            order = parse_order(render_probe(action.order, action.record.sizes))
            return replace(replica, probe_order=order, question=None)
        case Release():
            return replace(replica, serving=True, counts=None, hand_release=None)
        case _:
            return replica


@given(POOLS, STANDINGS, st.one_of(worlds(), HEARINGS))
def test_no_action_is_taken_twice_in_one_world(pool: EncoderPool, stands: Standing, world: Observation) -> None:
    seen: set[str] = set()
    for _ in range(6):
        actions = cordon(pool, stands, world, judge(pool, stands, world)).actions
        told = {_name(each) for each in actions}
        assert not told & seen
        seen |= told
        patched = {each.replica.name: _after(each) for each in actions}
        world = replace(world, replicas=tuple(patched.get(each.name, each) for each in world.replicas))
    assert cordon(pool, stands, world, judge(pool, stands, world)).actions == ()


def _name(action: Action) -> str:
    match action:
        case Dismiss():
            numbers = ""
        case AskPeer():
            numbers = action.question.id
        case OrderFlush():
            numbers = f"{action.order.id} {action.order.boot_id}"
        case _:
            numbers = f"{action.record.by} {action.record.times} {action.record.attempt}"
    return f"{type(action).__name__} {action.replica.name} {numbers}"


@given(POOLS, STANDINGS, worlds(), worlds())
def test_a_transition_time_moves_exactly_with_its_status(
    pool: EncoderPool, stands: Standing, first: Observation, second: Observation
) -> None:
    before = _status(pool, stands, first)
    later = replace(second, at=NOW + 100)
    known = with_status(pool, before)
    after = _status(known, stands, later)
    for one, other in zip(before["conditions"], after["conditions"], strict=True):
        moved = one["lastTransitionTime"] != other["lastTransitionTime"]
        assert moved == (one["status"] != other["status"])
    same = with_status(pool, after)
    again = replace(later, at=NOW + 200)
    assert json.dumps(_status(same, stands, again)) == json.dumps(after)


def _status(pool: EncoderPool, stands: Standing, world: Observation) -> dict[str, Any]:
    judgement = judge(pool, stands, world)
    return status(pool, stands, world, judgement, cordon(pool, stands, world, judgement))
