"""Properties of judge, cordon and status that hold in any world."""

from __future__ import annotations

import json
import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from encoder_operator import vocabulary
from encoder_operator.cordon import Action, Cordon, OrderProbe, OrderRestart, Release, cordon
from encoder_operator.judge import judge
from encoder_operator.observation import (
    CordonRecord,
    CordonState,
    Counts,
    DoneOrder,
    Identity,
    Observation,
    Order,
    ProbeReport,
    ProbeResult,
    Replica,
)
from encoder_operator.orders import parse_order, parse_record, render_probe, render_record, render_restart
from encoder_operator.spec import EncoderPool
from encoder_operator.standing import Standing
from encoder_operator.status import status
from encoder_operator.verdict import Judgement, Result, Scope, Verdict
from tests.support.replicas import (
    EXPECTED,
    FAILED,
    FINGERPRINT,
    NOW,
    OTHER_FINGERPRINT,
    PASSED,
    POOL,
    a_record,
    a_replica,
    an_identity,
    an_item,
    counted,
    observed,
    signature,
    standing,
    with_identity_policy,
    with_status,
)

RANK = {Result.GOOD: 0, Result.UNKNOWN: 1, Result.BAD: 2}
BOOTS = st.sampled_from(["boot-1", "boot-2"])
PROBE_IDS = st.sampled_from(["probe-1-1", "probe-1-2", "probe-2-1"])


def probes() -> st.SearchStrategy[ProbeReport | None]:
    ordered = st.builds(
        lambda result, order_id: ProbeReport(result=result, order_id=order_id, items=(an_item(),)),
        st.sampled_from(ProbeResult),
        PROBE_IDS,
    )
    return st.one_of(st.none(), st.just(PASSED), st.just(FAILED), ordered)


def identities() -> st.SearchStrategy[Identity]:
    return st.builds(
        an_identity,
        state=st.sampled_from(vocabulary.STATES),
        boot_id=BOOTS,
        fingerprint=st.sampled_from([None, FINGERPRINT, OTHER_FINGERPRINT]),
        signature=st.sampled_from([None, signature(), signature(times=2.0)]),
        probe=probes(),
        probe_done=st.one_of(st.none(), st.builds(DoneOrder, id=PROBE_IDS, result=st.sampled_from(ProbeResult))),
    )


def counts() -> st.SearchStrategy[Counts]:
    number = st.integers(0, 60)
    return st.builds(
        lambda good, bad, layout, media, since: counted(good, bad=bad, layout=layout, media=media, since=since),
        number,
        number,
        number,
        st.integers(0, 6),
        st.sampled_from([2.0, 10.0, 20.0]),
    )


def records() -> st.SearchStrategy[CordonRecord]:
    return st.builds(
        a_record,
        by=st.sampled_from([vocabulary.FIELD_MANAGER, "somebody"]),
        state=st.sampled_from(CordonState),
        times=st.integers(1, 2),
        attempt=st.integers(1, 2),
        attempt_boot_id=st.one_of(st.none(), BOOTS),
        next_attempt_at=st.sampled_from([None, NOW - 5, NOW + 5]),
    )


def replicas() -> st.SearchStrategy[Replica]:
    return st.builds(
        a_replica,
        serving=st.booleans(),
        ready=st.booleans(),
        identity=st.one_of(st.none(), identities()),
        counts=st.one_of(st.none(), counts()),
        cordon=st.one_of(st.none(), records()),
        probe_order=st.one_of(st.none(), st.builds(Order, id=PROBE_IDS, boot_id=BOOTS)),
        restart_order=st.one_of(
            st.none(), st.builds(Order, id=st.sampled_from(["restart-1-1", "restart-1-2"]), boot_id=BOOTS)
        ),
    )


def worlds() -> st.SearchStrategy[Observation]:
    def named(found: list[Replica]) -> Observation:
        return observed([replace(each, name=f"r{index}", uid=f"uid-{index}") for index, each in enumerate(found)])

    return st.lists(replicas(), max_size=5).map(named)


POOLS = st.sampled_from(
    [
        POOL,
        with_identity_policy(policy="Off"),
        with_identity_policy(policy="Pinned", pinned={"fingerprint": EXPECTED.fingerprint}),
    ]
)
STANDINGS = st.sampled_from([standing(), standing(None)])


def verdict_of(judgement: Judgement, name: str) -> Verdict:
    return next(each for each in judgement.replicas if each.subject == name)


@given(POOLS, STANDINGS, worlds())
def test_every_replica_gets_one_verdict_with_a_known_reason(
    pool: EncoderPool, stands: Standing, world: Observation
) -> None:
    found = judge(pool, stands, world)
    assert sorted(each.subject for each in found.replicas) == sorted(each.name for each in world.replicas)
    assert [each.subject for each in found.revisions] == [each.hash for each in stands.revisions]
    assert all(each.reason in vocabulary.REASONS for each in (*found.replicas, *found.revisions, found.pool))


@given(POOLS, STANDINGS, worlds(), st.randoms(use_true_random=False))
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


@given(POOLS, STANDINGS, worlds(), st.data())
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
        if isinstance(action, Cordon):
            verdict = verdict_of(found, action.replica.name)
            assert (verdict.result, verdict.scope) == (Result.BAD, Scope.REPLICA)
            assert action.replica.identity is not None
            assert action.replica.identity.state == vocabulary.STATE_READY
            assert any(each.serving and each.name != action.replica.name for each in world.replicas)


@given(POOLS, STANDINGS, worlds())
def test_another_ones_cordon_is_never_acted_on(pool: EncoderPool, stands: Standing, world: Observation) -> None:
    for action in cordon(pool, stands, world, judge(pool, stands, world)).actions:
        record = action.replica.cordon
        assert record is None or record.by == vocabulary.FIELD_MANAGER
        if not action.replica.serving:
            assert record is not None
            assert record.state is CordonState.CORDONED


@given(POOLS, STANDINGS, worlds())
def test_out_only_by_a_passing_probe_of_this_boot_and_a_matching_identity(
    pool: EncoderPool, stands: Standing, world: Observation
) -> None:
    for action in cordon(pool, stands, world, judge(pool, stands, world)).actions:
        if isinstance(action, Release) and not action.replica.serving:
            identity, record = action.replica.identity, action.replica.cordon
            assert identity is not None
            assert record is not None
            assert identity.probe_done == DoneOrder(
                id=f"probe-{record.times}-{record.attempt}", result=ProbeResult.PASSED
            )
            assert identity.boot_id != record.attempt_boot_id
            expected = stands.revisions[0].expected
            assert expected is None or identity.fingerprint == expected.fingerprint


def _after(action: Action) -> Replica:
    """The pod as it is read after the action's patch, through the annotations' text."""
    record = parse_record(render_record(action.record))
    replica = replace(action.replica, cordon=record)
    match action:
        case Cordon():
            return replace(replica, serving=False)
        case OrderRestart():
            return replace(replica, restart_order=parse_order(render_restart(action.order)))
        case OrderProbe():
            return replace(replica, probe_order=parse_order(render_probe(action.order, action.record.sizes)))
        case Release():
            return replace(replica, serving=True, counts=None)
        case _:
            return replica


@given(POOLS, STANDINGS, worlds())
def test_no_action_is_taken_twice_in_one_world(pool: EncoderPool, stands: Standing, world: Observation) -> None:
    seen: set[str] = set()
    for _ in range(4):
        actions = cordon(pool, stands, world, judge(pool, stands, world)).actions
        told = {
            f"{type(each).__name__} {each.replica.name} {each.record.times} {each.record.attempt}" for each in actions
        }
        assert not told & seen
        seen |= told
        patched = {each.replica.name: _after(each) for each in actions}
        world = replace(world, replicas=tuple(patched.get(each.name, each) for each in world.replicas))
    assert cordon(pool, stands, world, judge(pool, stands, world)).actions == ()


@given(POOLS, STANDINGS, worlds(), worlds())
def test_a_transition_time_moves_exactly_with_its_status(
    pool: EncoderPool, stands: Standing, first: Observation, second: Observation
) -> None:
    before = status(pool, stands, first, judge(pool, stands, first))
    later = replace(second, at=NOW + 100)
    known = with_status(pool, before)
    after = status(known, stands, later, judge(known, stands, later))
    for one, other in zip(before["conditions"], after["conditions"], strict=True):
        moved = one["lastTransitionTime"] != other["lastTransitionTime"]
        assert moved == (one["status"] != other["status"])
    same = with_status(pool, after)
    again = replace(later, at=NOW + 200)
    assert json.dumps(status(same, stands, again, judge(same, stands, again))) == json.dumps(after)
