"""Who is told to drop what, when a replica turns out to be at fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from encoder_operator import vocabulary
from encoder_operator.actions import AskPeer, Cordon, OrderFlush, OrderRestart
from encoder_operator.cordon import cordon
from encoder_operator.flushing import MOST_PRODUCERS
from encoder_operator.judge import judge
from encoder_operator.observation import CordonState, FlushOrder, Observation, ProbeResult, Replica
from encoder_operator.orders import render_flush
from encoder_operator.spec import EncoderPool
from tests.support.interrupted import Step, everywhere
from tests.support.memory_world import MemoryWorld
from tests.support.pool_objects import a_pool
from tests.support.replicas import (
    FAILED,
    NOW,
    a_record,
    a_replica,
    an_identity,
    answered,
    asked,
    cordoned,
    counted,
    held,
    observed,
    standing,
    suspect,
)

REDIS = {"redis": {"url": "redis://redis:6379/0"}}
BAD = "uid-bad/boot-1"
RECORD = a_record(boot_id="boot-1", attempt_boot_id="boot-1", next_attempt_at=NOW + 30)


def pool(mode: str = "Repair", **cache: object) -> EncoderPool:
    """A pool whose replicas here are of its revision, whatever its cache."""
    made = a_pool(replicas=3, quarantine={"mode": mode}, cache=cache or REDIS)
    bare = a_pool(replicas=3, integrity={"minChecks": 20, "minDistinctMedia": 3, "maxMismatchPerMille": 10})
    return replace(bare, spec=replace(bare.spec, cache=made.spec.cache, quarantine=made.spec.quarantine))


def bad(**fields: object) -> Replica:
    return cordoned("bad", record=RECORD, **fields)


def orders(pool: EncoderPool, world: Observation) -> dict[str, FlushOrder]:
    actions = cordon(pool, standing(), world, judge(pool, standing(), world)).actions
    return {each.replica.name: each.order for each in actions if isinstance(each, OrderFlush)}


def test_every_replica_of_the_revision_is_told_whose_entries_to_drop() -> None:
    told = orders(pool(), observed([bad(), a_replica("good")]))
    assert {name: order.producers for name, order in told.items()} == {"bad": (BAD,), "good": (BAD,)}
    assert len({order.id for order in told.values()}) == 1
    assert {order.boot_id for order in told.values()} == {"boot-1"}


def test_who_was_told_is_not_told_again_but_a_new_boot_is() -> None:
    order = orders(pool(), observed([a_replica("good"), bad()]))["good"]
    told = a_replica("good", flush_order=order)
    rebooted = replace(told, identity=an_identity(boot_id="boot-2"))
    more = a_replica("more", flush_order=replace(order, producers=(BAD, "uid-other/boot-9")))
    assert set(orders(pool(), observed([told, more, bad(flush_order=order)]))) == set()
    assert orders(pool(), observed([rebooted, bad(flush_order=order)]))["good"].boot_id == "boot-2"


def test_the_boot_that_was_evidence_is_named_however_often_it_was_restarted_since() -> None:
    record = replace(RECORD, attempt=3, attempt_boot_id="boot-3")
    here = cordoned("bad", record=record, identity=an_identity(boot_id="boot-4", state=vocabulary.STATE_CORDONED))
    assert orders(pool(), observed([here, a_replica("good")]))["good"].producers == (BAD,)


def test_a_release_and_a_second_fault_forget_nothing() -> None:
    released = replace(RECORD, state=CordonState.RELEASED, released_at=NOW - 5)
    back = a_replica("bad", cordon=released, identity=an_identity(boot_id="boot-2"))
    again = a_replica("other", cordon=replace(released, boot_id="boot-7"))
    told = orders(pool(), observed([back, again, a_replica("good")]))
    assert told["good"].producers == (BAD, "uid-other/boot-7")
    old = a_replica("bad", cordon=replace(released, since=NOW - 3 * 86400))
    assert orders(pool(), observed([old, a_replica("good")])) == {}


def test_in_the_pass_of_a_cordon_the_others_are_told_already() -> None:
    at_fault = suspect("bad")
    peer = answered(asked(a_replica("good", counts=counted(120)), at_fault), ProbeResult.PASSED)
    world = observed([at_fault, peer, a_replica("third", counts=counted(120))])
    actions = cordon(pool(), standing(), world, judge(pool(), standing(), world)).actions
    assert [type(each) for each in actions] == [Cordon, OrderFlush, OrderFlush]
    flushed = [each for each in actions if isinstance(each, OrderFlush)]
    assert {each.order.producers for each in flushed} == {("uid-bad/boot-of-bad",)}
    assert "bad" not in {each.replica.name for each in flushed}


@pytest.mark.parametrize(
    ("identity", "flushes"),
    [
        (held(vocabulary.SIGNATURE_DRIFT), True),
        (held(vocabulary.PROBE_FAILED, probe=replace(FAILED, order_id="opinion-x-0-1")), True),
        (held(vocabulary.PROBE_FAILED, probe=FAILED), False),
        (held(vocabulary.FINGERPRINT_DRIFT), False),
        (held(vocabulary.LEARNING), False),
    ],
    ids=["other numbers", "failed after it served", "failed before it served", "other keys", "not known yet"],
)
def test_who_is_held_is_flushed_where_its_entries_could_be_hits(identity: object, flushes: bool) -> None:
    world = observed([a_replica("bad", ready=False, identity=identity), a_replica("good")])
    assert ("good" in orders(pool(), world)) is flushes


def test_another_revision_has_other_keys_and_is_left_alone() -> None:
    other = a_replica("other", revision="0123456789")
    assert set(orders(pool(), observed([bad(), other]))) == {"bad"}


@pytest.mark.parametrize("state", ["STARTING", "DRAINING", "FAILED", "WARMING"])
def test_who_cannot_hear_is_not_told(state: str) -> None:
    deaf = a_replica("good", identity=an_identity(state=state))
    assert "good" not in orders(pool(), observed([bad(), deaf, a_replica("silent", identity=None)]))


def test_without_a_shared_cache_the_boot_at_fault_alone_is_told() -> None:
    world = observed([bad(), a_replica("good")])
    assert set(orders(pool(memory="1Gi"), world)) == {"bad"}
    restarted = bad(identity=an_identity(boot_id="boot-2", state=vocabulary.STATE_CORDONED))
    assert orders(pool(memory="1Gi"), observed([restarted, a_replica("good")])) == {}


def test_nothing_is_flushed_where_nothing_is_kept() -> None:
    assert orders(pool(memory="0"), observed([bad(), a_replica("good")])) == {}


def test_mode_observe_flushes_nothing_and_says_so() -> None:
    world = observed([bad(), a_replica("good")])
    decided = cordon(pool("Observe"), standing(), world, judge(pool("Observe"), standing(), world))
    assert decided.actions == ()
    assert any(isinstance(each, OrderFlush) for each in decided.withheld)


def test_one_action_at_a_time_for_a_replica_and_the_flush_comes_last() -> None:
    due = cordoned("bad", record=replace(RECORD, next_attempt_at=None))
    world = observed([due, a_replica("good")])
    actions = cordon(pool(), standing(), world, judge(pool(), standing(), world)).actions
    assert [(type(each), each.replica.name) for each in actions] == [(OrderRestart, "bad"), (OrderFlush, "good")]
    assert not any(isinstance(each, AskPeer) for each in actions)


def test_an_order_is_bounded_and_holds_the_newest() -> None:
    many = [
        a_replica(f"r{at}", cordon=replace(RECORD, since=NOW - 1000 + at, state=CordonState.RELEASED))
        for at in range(MOST_PRODUCERS + 10)
    ]
    order = orders(pool(), observed([*many, a_replica("good")]))["good"]
    assert len(order.producers) == MOST_PRODUCERS
    assert "uid-r41/boot-1" in order.producers
    assert "uid-r9/boot-1" not in order.producers
    assert len(render_flush(order)) < 8192
    hostile = a_replica("bad", cordon=replace(RECORD, boot_id="x" * 1000))
    assert orders(pool(), observed([hostile, a_replica("good")])) == {}


def first_at_fault(world: MemoryWorld, *, faulty: bool = True) -> None:
    """Traffic in which the first replica mismatches, or nobody does."""
    for at in range(len(world.pod_objects)):
        faulty = faulty and at == 0
        world.server(at).fault = faulty
        if world.label(at) == "true":
            world.count(at, good=80 if faulty else 120, bad=40 if faulty else 0, media=8 if faulty else 0)


def peers_have_flushed(world: MemoryWorld) -> bool:
    producer = f"{world.server(0).uid}/{world.record(0).get('bootId')}"
    return all(producer in world.server(at).flushed for at in (1, 2))


def all_serve_and_have_flushed(world: MemoryWorld) -> bool:
    assert world.pool is not None
    back = world.record(0).get("state") == "Released" and world.condition()["reason"] == "AsExpected"
    return back and world.pool["status"]["servingReplicas"] == 3 and peers_have_flushed(world)


def sharing_world() -> MemoryWorld:
    return MemoryWorld(cache=REDIS, quarantine={"baseSeconds": 1, "maxSeconds": 60, "maxRestarts": 3})


async def test_a_pool_that_shares_flushes_what_a_cordoned_replica_made_and_tells_it_once() -> None:
    world = sharing_world()
    await world.passes(6)
    boot_id = world.server(0).boot_id
    world.now += 60
    for _ in range(6):
        first_at_fault(world)
        await world.passes(1)
    assert world.record(0)["bootId"] == boot_id
    assert peers_have_flushed(world)
    assert [event["message"] for event in world.events.values() if event["reason"] == "FlushOrdered"] == [
        "cache: nobody takes for a hit what 1 boot at fault made"
    ]


async def test_broken_off_at_any_call_the_peers_are_told_all_the_same() -> None:
    world = sharing_world()
    await world.passes(6)
    world.now += 60
    story = (
        Step(meanwhile=first_at_fault, done=peers_have_flushed),
        Step(meanwhile=lambda world: first_at_fault(world, faulty=False), done=all_serve_and_have_flushed),
    )
    telling = await everywhere(story, world, brief=frozenset({"FlushOrdered"}))
    assert telling.broken > 20
