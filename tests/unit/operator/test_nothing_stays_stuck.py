"""Faults that no probe shows, replicas that fall silent, questions that nobody can read: all come to an end by
themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from encoder_operator import names, vocabulary
from encoder_operator.spec import parse
from encoder_operator.timestamps import to_text
from tests.support import memory_world
from tests.support.memory_world import MemoryWorld, Probing, Server
from tests.support.replicas import OTHER_FINGERPRINT

QUICK = {"baseSeconds": 2, "maxSeconds": 60, "maxRestarts": 2}
HOUR = 3600.0


async def a_ready_pool(**spec: Any) -> MemoryWorld:
    return await memory_world.a_ready_pool(**{"quarantine": QUICK} | spec)


async def passes(world: MemoryWorld, count: int, *faulty: int, seconds: float = 1.0) -> None:
    """Passes in which these replicas mismatch in traffic."""
    for _ in range(count):
        for index in range(len(world.pod_objects)):
            bad = 40 + index if index in faulty else 0
            if world.label(index) == "true":
                world.count(index, good=120 - bad, bad=bad, media=bad)
        await world.passes(1, seconds=seconds)


def labels(world: MemoryWorld) -> list[str]:
    return [world.label(index) for index in range(len(world.pod_objects))]


async def cordoned(world: MemoryWorld) -> Server:
    """The first replica fails at its size, and is cordoned."""
    world.server(0).fault = True
    await passes(world, 3, 0)
    assert labels(world) == ["false", "true", "true"]
    return world.server(0)


def ends(world: MemoryWorld, reason: str) -> None:
    """The first replica's container does not run, for this reason."""
    world.server(0).answers = False
    state = {"waiting": {"reason": reason}}
    world.pod(0)["status"]["containerStatuses"][0]["state"] = state


async def test_a_fault_that_no_probe_shows_is_restarted_in_vain_so_often_and_then_replaced() -> None:
    world = await a_ready_pool()
    first = world.server(0)
    while not world.evicted:
        await passes(world, 1, 0)
        assert world.server(0).boots <= 1 + QUICK["maxRestarts"]
    assert world.evicted == [first.uid]
    assert first.boots == 1 + QUICK["maxRestarts"], "each restart was given its chance"
    await passes(world, 10)
    assert (labels(world), world.condition()["reason"]) == (["true"] * 3, "AsExpected")


@pytest.mark.parametrize("by_hand", ["hand-cordon and off again", "hand-release", "label set back"])
async def test_what_a_person_ended_is_no_restart_in_vain(by_hand: str) -> None:
    world = await a_ready_pool(quarantine={"baseSeconds": 2, "maxSeconds": 600, "maxRestarts": 1})
    pod = world.pod(0)["metadata"]
    if by_hand == "hand-cordon and off again":
        pod["annotations"]["encoderpool.io/hand-cordon"] = "to look at it"
        await passes(world, 2)
        assert labels(world) == ["false", "true", "true"]
        del pod["annotations"]["encoderpool.io/hand-cordon"]
    else:
        world.server(0).fault = True
        while world.label(0) == "true":
            await passes(world, 1, 0)
        world.server(0).fault = False
        if by_hand == "hand-release":
            pod["annotations"]["encoderpool.io/hand-release"] = "we know"
        else:
            pod["labels"]["encoderpool.io/serving"] = "true"
    await passes(world, 2)
    assert labels(world) == ["true"] * 3
    boots = world.server(0).boots
    world.server(0).fault = True
    while world.server(0).boots == boots and not world.evicted:
        await passes(world, 1, 0)
    assert not world.evicted, "it is restarted before it is replaced"


@pytest.mark.parametrize("mode", ["Cordon", "Repair"])
async def test_who_relapses_stays_out_longer_each_time(mode: str) -> None:
    world = await a_ready_pool(quarantine={"baseSeconds": 8, "maxSeconds": 60, "maxRestarts": 100, "mode": mode})
    out: dict[int, int] = {}
    for _ in range(100):
        await passes(world, 1, 0)
        if world.label(0) == "false":
            out[world.record(0)["times"]] = out.get(world.record(0)["times"], 0) + 1
    assert out[1] < out[2] < out[3]


async def test_who_served_long_since_is_restarted_at_once() -> None:
    world = await a_ready_pool()
    await passes(world, 8, 0)
    world.now += 3 * 60
    await passes(world, 1)
    boots = world.server(0).boots
    await passes(world, 5, 0)
    assert world.server(0).boots == boots + 1


@pytest.mark.parametrize(("obstacle", "longest"), [("CrashLoopBackOff", 900.0), (None, HOUR)])
async def test_a_cordoned_replica_that_never_answers_again_is_replaced(obstacle: str | None, longest: float) -> None:
    world = await a_ready_pool()
    server = await cordoned(world)
    since = world.now
    await passes(world, 2)
    ends(world, obstacle) if obstacle else None
    server.answers = False
    world.now = since + longest - 60
    await passes(world, 4)
    assert (world.evicted, labels(world)) == ([], ["false", "true", "true"]), "it may come back still"
    world.now = since + longest + 60
    await passes(world, 10)
    assert (world.evicted, labels(world)) == ([server.uid], ["true"] * 3)
    assert world.condition()["reason"] == "AsExpected"


@pytest.mark.parametrize("probing", [Probing.UNHEARD, Probing.ENDLESS])
async def test_a_cordoned_replica_that_does_not_do_what_it_is_told_is_replaced(probing: Probing) -> None:
    world = await a_ready_pool()
    server = await cordoned(world)
    server.probing = probing
    world.now += HOUR - 60
    await passes(world, 4)
    world.now += 2 * HOUR
    await passes(world, 10)
    assert (world.evicted, labels(world)) == ([server.uid], ["true"] * 3)


@pytest.mark.parametrize("kept", ["mode Cordon", "skip"])
async def test_who_may_not_be_evicted_is_not_for_its_silence(kept: str) -> None:
    world = await a_ready_pool()
    await cordoned(world)
    ends(world, "CrashLoopBackOff")
    assert world.pool is not None
    if kept == "skip":
        world.pod(0)["metadata"]["annotations"][vocabulary.ANNOTATION_SKIP] = "mine"
    else:
        world.pool["spec"]["quarantine"]["mode"] = "Cordon"
    world.now += 2 * HOUR
    await passes(world, 10)
    assert (world.evicted, world.label(0)) == ([], "false")


async def test_one_that_loads_for_long_after_its_restart_is_waited_for() -> None:
    world = await a_ready_pool()
    server = await cordoned(world)
    await passes(world, 2)
    server.heard = False
    world.now += 2 * HOUR
    running = {"running": {"startedAt": to_text(world.now - 1800)}}
    world.pod(0)["status"]["containerStatuses"][0]["state"] = running
    await passes(world, 4)
    assert world.evicted == []
    server.heard, server.fault = True, False
    await passes(world, 6)
    assert (world.record(0)["state"], labels(world)) == ("Released", ["true"] * 3)


async def test_each_restart_is_given_its_time_however_long_the_cordon_lasts() -> None:
    world = await a_ready_pool(quarantine=QUICK | {"maxSeconds": 6, "maxRestarts": 100})
    server = await cordoned(world)
    for _ in range(3):
        world.now += HOUR
        await passes(world, 8)
    while server.obeyed[-1].startswith("probe"):
        await passes(world, 1)
    ends(world, "CrashLoopBackOff")
    world.now += 600
    await passes(world, 5)
    assert world.evicted == []


async def test_a_silent_replica_whose_eviction_is_refused_is_told_and_replaced_later() -> None:
    world = await a_ready_pool()
    server = await cordoned(world)
    ends(world, "CrashLoopBackOff")
    world.eviction_refusal = "Cannot evict pod as it would violate the pod's disruption budget."
    world.now += HOUR
    await passes(world, 10)
    assert world.condition("QuarantineWithinBudget")["reason"] == "EvictionBlocked"
    world.eviction_refusal = None
    world.now += HOUR
    await passes(world, 10)
    assert (world.evicted, labels(world)) == ([server.uid], ["true"] * 3)


async def test_a_peer_that_is_ready_and_can_be_read_no_more_holds_no_question_open_for_ever() -> None:
    world = await a_ready_pool(replicas=4)
    world.server(0).fault = True
    world.server(1).probing = Probing.UNHEARD
    await passes(world, 1, 0)
    world.server(1).heard = False
    await passes(world, 2 * 60 + 30 + 5, 0)
    assert labels(world) == ["false", "true", "true", "true"]
    assert "passed a probe" in world.record(0)["message"]


async def test_an_answer_that_cannot_be_read_for_a_moment_is_not_taken_for_none() -> None:
    world = await a_ready_pool(replicas=3, quarantine=QUICK | {"baseSeconds": 60})
    for index in range(3):
        world.server(index).fault = True
    await passes(world, 200, 0)
    assert world.condition()["reason"] == "RevisionFault"
    world.server(1).heard = False
    await passes(world, 5, 0)
    assert labels(world) == ["true"] * 3
    world.server(1).heard = True
    await passes(world, 2, 0)
    assert (labels(world), world.condition()["reason"]) == (["true"] * 3, "RevisionFault")


def in_the_new_one(world: MemoryWorld) -> list[str]:
    """The pods of the revision that the spec asks for, by name."""
    assert world.pool is not None
    asked = names.revision_hash(parse(world.pool).spec)
    return sorted(name for name in world.servers if asked in name)


@pytest.mark.parametrize(("replicas", "drifted"), [(3, 0), (4, 0), (5, 0), (3, 1), (5, 1)])
async def test_in_place_two_that_disagree_wait_for_more_to_tell_who_is_right(replicas: int, drifted: int) -> None:
    world = await a_ready_pool(replicas=replicas, rollout={"strategy": "InPlace"})
    assert world.pool is not None
    world.pool["spec"]["image"] = "encoder-server:2"
    for _ in range(60):
        for index, name in enumerate(in_the_new_one(world)):
            world.servers[name].fingerprint = "ab" * 32 if index == drifted else OTHER_FINGERPRINT
        await passes(world, 1)
        assert world.pool["status"]["servingReplicas"] >= 1
    held = in_the_new_one(world)[drifted]
    states = {name: world.servers[name].identity(True, world.mounted[name]).state for name in world.servers}
    assert states[held] == "HELD", "it is the one that is another"
    assert world.condition()["reason"] == "FingerprintDrift"
    assert [name for name, state in states.items() if state == "HELD"] == [held]
    world.servers[held].boot()
    world.servers[held].fingerprint = OTHER_FINGERPRINT
    world.live()
    drifted = -1
    for _ in range(60):
        for name in in_the_new_one(world):
            world.servers[name].fingerprint = OTHER_FINGERPRINT
        await passes(world, 1)
    assert (len(world.servers), world.condition()["reason"]) == (replicas, "AsExpected")


async def test_in_place_replicas_that_all_disagree_take_no_more_old_ones() -> None:
    world = await a_ready_pool(replicas=5, rollout={"strategy": "InPlace"})
    assert world.pool is not None
    world.pool["spec"]["image"] = "encoder-server:2"
    for _ in range(60):
        for index, name in enumerate(in_the_new_one(world)):
            world.servers[name].fingerprint = f"{index:064x}"
        await passes(world, 1)
    assert world.pool["status"]["servingReplicas"] == 3
    assert world.condition()["reason"] == "ReferenceSuspect"


@pytest.mark.parametrize("matches", [True, False], ids=["as pinned", "another than pinned"])
async def test_a_pin_on_what_comes_holds_nobody_who_serves_unchecked(matches: bool) -> None:
    model = {"source": {"local": {"path": "/m"}}, "encoder": "Auto"}
    identity: dict[str, Any] = {"policy": "Off", "maxSignatureDistancePerMille": 50}
    world = await a_ready_pool(model=model | {"identity": identity})
    assert world.pool is not None
    world.pool["spec"]["image"] = "encoder-server:2"
    pinned = {"policy": "Pinned", "pinned": {"fingerprint": OTHER_FINGERPRINT}}
    world.pool["spec"]["model"]["identity"] = identity | pinned
    for _ in range(40):
        for name in in_the_new_one(world):
            world.servers[name].fingerprint = OTHER_FINGERPRINT if matches else "ab" * 32
        await passes(world, 1)
        assert world.pool["status"]["servingReplicas"] >= 3
    assert world.condition()["status"] == "True"
    serving = "encoder-server:2" if matches else "encoder-server:1"
    images = {
        each["spec"]["template"]["spec"]["containers"][0]["image"]
        for each in world.objects.values()
        if each["kind"] == "Deployment"
    }
    assert images == {serving}


async def test_fewer_asked_for_amid_a_rollout_in_place_are_fewer_in_the_end() -> None:
    world = await a_ready_pool(replicas=4, rollout={"strategy": "InPlace"})
    assert world.pool is not None
    world.pool["spec"]["image"] = "encoder-server:2"
    while len(in_the_new_one(world)) < 3:
        await passes(world, 1)
    world.pool["spec"]["replicas"] = 2
    await passes(world, 20)
    assert world.condition("Progressing")["reason"] == "AsExpected"
    assert (len(world.servers), len(in_the_new_one(world))) == (2, 2)


async def test_a_suspect_that_restarts_by_itself_is_not_asked_about_of_the_same_deaf_peer_for_ever() -> None:
    world = await a_ready_pool()
    world.server(0).fault = True
    world.server(1).probing = Probing.UNHEARD
    await passes(world, 10, 0)
    assert labels(world) == ["true"] * 3
    world.server(0).boot()
    world.live()
    await passes(world, 5, 0)
    assert labels(world) == ["false", "true", "true"]
    assert "passed a probe" in world.record(0)["message"]


async def test_however_long_a_text_a_person_writes_the_status_stays_short() -> None:
    world = await a_ready_pool()
    record: dict[str, Any] = {
        "times": 1,
        "attempt": 1,
        "attemptBootId": None,
        "nextAttemptAt": None,
        "sizes": [],
        "releasedAt": None,
    }
    text = "x" * 200_000
    said = {"by": text, "state": "Cordoned", "reason": text, "message": text, "since": to_text(world.now)}
    for index in range(3):
        own = {"by": vocabulary.FIELD_MANAGER, "reason": "TokenMismatch"} if index == 0 else {}
        metadata = world.pod(index)["metadata"]
        metadata["annotations"][vocabulary.ANNOTATION_CORDON] = json.dumps(record | said | own)
        metadata["labels"][vocabulary.LABEL_SERVING] = "false"
    await passes(world, 1)
    assert world.pool is not None
    assert len(json.dumps(world.pool["status"])) < 20_000
