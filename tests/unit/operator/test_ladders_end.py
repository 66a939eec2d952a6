"""The ladder's end: eviction, rejection and the way back, in whole stories."""

from __future__ import annotations

from typing import Any

import pytest

from encoder_operator import names, vocabulary
from encoder_operator.cluster import ChildKind
from encoder_operator.spec import parse
from encoder_operator.timestamps import to_text
from tests.support import memory_world
from tests.support.memory_world import MemoryWorld

SOON = {"baseSeconds": 1, "maxSeconds": 60, "maxRestarts": 1}


async def a_ready_pool(**quarantine: Any) -> MemoryWorld:
    return await memory_world.a_ready_pool(quarantine=SOON | quarantine)


async def faulty_for(world: MemoryWorld, passes: int, *, cured: bool = False) -> None:
    """The first replica's fault stays, whatever its process: only what reads it may cure it."""
    for _ in range(passes):
        for index in range(len(world.pod_objects)):
            at_fault = index == 0 and not cured
            world.server(index).fault = at_fault
            if world.label(index) == "true":
                world.count(index, good=80 if at_fault else 120, bad=40 if at_fault else 0, media=8 if at_fault else 0)
        await world.passes(1)


def revisions(world: MemoryWorld) -> list[tuple[str, str]]:
    assert world.pool is not None
    return [(each["hash"], each["role"]) for each in world.pool["status"]["revisions"]]


def asked(world: MemoryWorld) -> str:
    assert world.pool is not None
    return names.revision_hash(parse(world.pool).spec)


def images(world: MemoryWorld) -> set[str]:
    """What the Deployments run."""
    found = [each for (kind, _), each in world.objects.items() if kind is ChildKind.DEPLOYMENT]
    return {each["spec"]["template"]["spec"]["containers"][0]["image"] for each in found}


async def roll_out(world: MemoryWorld, image: str) -> None:
    assert world.pool is not None
    world.pool["spec"]["image"] = image
    await world.passes(6)
    assert revisions(world) == [(asked(world), "Current")]
    world.now += 60


def reasons(world: MemoryWorld) -> list[str]:
    return [event["reason"] for event in world.events.values()]


async def test_a_replacement_that_loads_for_long_has_cured_nothing_yet() -> None:
    world = await a_ready_pool()
    while not world.evicted:
        await faulty_for(world, 1)
    world.live()
    world.server(0).answers = False
    await world.passes(1)
    world.now += 600
    await world.passes(1)
    assert world.pool is not None
    assert world.pool["status"]["revisions"][0]["attempts"] == 1, "it has not served for a moment"
    world.server(0).answers = True
    await world.passes(2)
    assert world.pool["status"]["revisions"][0]["attempts"] == 1, "it has not served for long"
    world.now += 61
    await world.passes(1)
    assert "attempts" not in world.pool["status"]["revisions"][0]


async def test_what_restarts_do_not_cure_is_replaced_and_the_replacement_serves() -> None:
    world = await a_ready_pool()
    uid = world.server(0).uid
    while not world.evicted:
        await faulty_for(world, 1)
    assert world.evicted == [uid]
    assert world.pool is not None
    assert world.pool["status"]["revisions"][0]["attempts"] == 1
    await faulty_for(world, 6, cured=True)
    assert (world.label(0), world.record(0), world.condition()["reason"]) == ("true", {}, "AsExpected")
    assert reasons(world).count("Evicted") == 1
    world.now += 61
    await world.passes(1)
    assert "attempts" not in world.pool["status"]["revisions"][0], "what was cured is forgotten"


async def test_a_refused_eviction_is_told_and_tried_again_later() -> None:
    world = await a_ready_pool(baseSeconds=5)
    world.eviction_refusal = "Cannot evict pod as it would violate the pod's disruption budget."
    await faulty_for(world, 40)
    assert world.evicted == []
    told = world.condition("QuarantineWithinBudget")
    assert (told["status"], told["reason"]) == ("False", "EvictionBlocked")
    assert "disruption budget" in told["message"]
    assert reasons(world).count("EvictionBlocked") == 1
    assert world.pool is not None
    assert world.pool["status"]["revisions"][0]["attempts"] == 1, "one replacement, however often it is tried"
    world.eviction_refusal = None
    await faulty_for(world, 40)
    assert len(world.evicted) == 1


async def test_a_refused_eviction_keeps_nobody_out_who_is_good_again() -> None:
    world = await a_ready_pool(baseSeconds=2, maxSeconds=4)
    world.eviction_refusal = "Cannot evict pod as it would violate the pod's disruption budget."
    await faulty_for(world, 20)
    assert world.condition("QuarantineWithinBudget")["reason"] == "EvictionBlocked"
    await faulty_for(world, 15, cured=True)
    assert (world.label(0), world.record(0)["state"], world.evicted) == ("true", "Released", [])
    assert world.condition("QuarantineWithinBudget")["reason"] == "AsExpected"


@pytest.mark.parametrize(("obstacle", "longest"), [(None, 3600), ("no node takes it", 300)])
async def test_one_that_never_comes_up_does_not_keep_others_from_being_replaced(
    obstacle: str | None, longest: int
) -> None:
    world = await a_ready_pool(maxSeconds=3)
    begun = world.now
    stuck = sorted(world.servers)[2]
    world.servers[stuck].answers = False
    pod = world.pod_objects[stuck]
    waiting = {"waiting": {"reason": obstacle}}
    running = {"running": {"startedAt": to_text(begun)}}
    pod["status"]["containerStatuses"][0]["state"] = waiting if obstacle else running
    pod["metadata"]["creationTimestamp"] = to_text(begun)
    await faulty_for(world, 15)
    assert (world.label(0), world.evicted) == ("false", []), "it may come up still"
    world.now = begun + longest - 1
    await faulty_for(world, 2)
    await faulty_for(world, 10)
    assert len(world.evicted) == 1


@pytest.mark.parametrize("mode", ["Observe", "Cordon"])
async def test_only_in_mode_repair_is_anybody_evicted(mode: str) -> None:
    world = await a_ready_pool(mode=mode)
    await faulty_for(world, 40)
    assert world.evicted == []
    assert world.server(0).boots == 1


async def test_a_revision_whose_replacements_repeat_the_fault_is_rejected_and_gone_back_from() -> None:
    world = await a_ready_pool()
    good = asked(world)
    await roll_out(world, "encoder-server:2")
    bad = asked(world)
    lowest = 3
    for _ in range(60):
        await faulty_for(world, 1, cured=(good, "Current") in revisions(world))
        lowest = min(lowest, sum(world.label(index) == "true" for index in range(len(world.pod_objects))))
    assert revisions(world) == [(good, "Current"), (bad, "Rejected")]
    assert images(world) == {"encoder-server:1"}
    assert lowest >= 2, "who was good served on"
    assert len(world.evicted) == 1
    assert reasons(world).count("Rejected") == 1
    told = world.condition("Progressing")
    assert (told["status"], told["reason"]) == ("False", "RevisionFault")
    assert f"kubectl annotate encoderpool vision encoderpool.io/retry={bad}" in told["message"]
    assert world.condition()["reason"] == "AsExpected"
    written = world.writes_so_far()
    await world.passes(5, seconds=0.0)
    assert world.writes_so_far() - written <= len(world.events)


async def test_with_nothing_to_go_back_to_it_says_so_and_who_is_good_serves_on() -> None:
    world = await a_ready_pool()
    await faulty_for(world, 60)
    assert revisions(world) == [(asked(world), "Current")]
    assert len(world.evicted) == 1
    told = world.condition("Progressing")
    assert (told["status"], told["reason"]) == ("False", "RevisionFault")
    assert "no earlier one is known to go back to" in told["message"]
    assert sorted(world.label(index) for index in range(3)) == ["false", "true", "true"]
    await faulty_for(world, 130, cured=True)
    assert world.condition()["reason"] == "AsExpected", "a cause that is gone at last is noticed"


async def roll_out_to_a_faulty(world: MemoryWorld, revision: str) -> None:
    """Twelve passes while the golden probes of this revision's replicas fail, and all others' pass."""
    for _ in range(12):
        for name, server in world.servers.items():
            server.probe_passes = revision not in name
        world.live()
        await world.passes(1)


async def test_a_target_at_fault_is_rejected_and_what_served_serves_on() -> None:
    world = await a_ready_pool(baseSeconds=5)
    good = asked(world)
    assert world.pool is not None
    world.pool["spec"]["image"] = "encoder-server:2"
    bad = asked(world)
    await roll_out_to_a_faulty(world, bad)
    assert revisions(world) == [(good, "Current"), (bad, "Rejected")]
    assert images(world) == {"encoder-server:1"}
    assert world.condition()["status"] == "True"
    assert world.condition("Progressing")["reason"] == "RevisionFault"

    world.pool["metadata"]["annotations"] = {vocabulary.ANNOTATION_RETRY: bad}
    await world.passes(8)
    assert revisions(world) == [(bad, "Current")], "tried again, and good this time"


async def all_at_fault(world: MemoryWorld, passes: int, *revisions: str) -> None:
    """Passes while all replicas of these revisions mismatch on many pictures, and all others are good."""
    for _ in range(passes):
        for index, name in enumerate(sorted(world.pod_objects)):
            bad = 40 if any(each in name for each in revisions) else 0
            world.count(index, good=120 - bad, bad=bad, media=bad)
        await world.passes(1)


async def test_what_serves_and_is_at_fault_itself_is_gone_back_from() -> None:
    world = await a_ready_pool(baseSeconds=5)
    good = asked(world)
    await roll_out(world, "encoder-server:2")
    bad = asked(world)
    await all_at_fault(world, 4, bad)
    assert revisions(world) == [(bad, "Current")], "not before baseSeconds"
    await all_at_fault(world, 12, bad)
    assert revisions(world) == [(good, "Current"), (bad, "Rejected")]
    assert images(world) == {"encoder-server:1"}
    assert reasons(world).count("Rejected") == 1
    assert world.condition()["reason"] == "AsExpected"
    assert not [name for name in reasons(world) if name == "Cordoned"], "nobody is cordoned for what all do"


async def test_what_was_gone_back_to_and_is_at_fault_too_stays_and_says_why() -> None:
    world = await a_ready_pool(baseSeconds=5)
    await roll_out(world, "encoder-server:2")
    before = asked(world)
    await roll_out(world, "encoder-server:3")
    bad = asked(world)
    await all_at_fault(world, 100, bad, before)
    assert revisions(world)[0][0] == before
    assert (bad, "Rejected") in revisions(world)
    told = world.condition("Progressing")
    assert (told["status"], told["reason"]) == ("False", "RevisionFault")
    assert f"revision {before} is at fault, and {bad} was given up shortly before" in told["message"]
    assert "probably not the revision" in told["message"]
    await all_at_fault(world, 4)
    assert world.condition()["reason"] == "AsExpected"
    world.now += 61
    await all_at_fault(world, 20, before)
    assert images(world) == {"encoder-server:1"}, "a later fault is a matter of its own"


async def test_with_nothing_to_go_back_to_a_revision_at_fault_serves_on_and_says_so() -> None:
    world = await a_ready_pool(baseSeconds=5)
    await all_at_fault(world, 20, asked(world))
    assert revisions(world) == [(asked(world), "Current")]
    assert "no earlier one is known to go back to" in world.condition("Progressing")["message"]


@pytest.mark.parametrize("mode", ["Observe", "Cordon"])
async def test_only_in_mode_repair_is_anything_gone_back_from(mode: str) -> None:
    world = await a_ready_pool(baseSeconds=5, mode=mode)
    await roll_out(world, "encoder-server:2")
    await all_at_fault(world, 20, asked(world))
    assert revisions(world) == [(asked(world), "Current")]


async def test_an_annotation_is_heeded_once() -> None:
    world = await a_ready_pool(baseSeconds=5)
    good = asked(world)
    assert world.pool is not None
    world.pool["spec"]["image"] = "encoder-server:2"
    bad = asked(world)
    world.pool["metadata"]["annotations"] = {vocabulary.ANNOTATION_RETRY: bad}
    await roll_out_to_a_faulty(world, bad)
    assert revisions(world) == [(good, "Current"), (bad, "Rejected")]


async def test_another_spec_clears_the_way() -> None:
    world = await a_ready_pool(baseSeconds=5)
    assert world.pool is not None
    world.pool["spec"]["image"] = "encoder-server:2"
    bad = asked(world)
    await roll_out_to_a_faulty(world, bad)
    world.pool["spec"]["image"] = "encoder-server:3"
    await world.passes(8)
    assert revisions(world) == [(asked(world), "Current"), (bad, "Rejected")]
    assert images(world) == {"encoder-server:3"}


async def nothing_comes_up_of(world: MemoryWorld, revision: str, passes: int, *at_fault: str) -> None:
    """Passes in which no replica of this revision answers, and its Deployment says that it gave up waiting."""
    for _ in range(passes):
        for name, server in world.servers.items():
            server.answers = revision not in name
        world.live()
        for (kind, name), each in world.objects.items():
            if kind is ChildKind.DEPLOYMENT and revision in name:
                told = {"type": "Progressing", "status": "False", "message": "exceeded its progress deadline"}
                each["status"]["conditions"] = [told]
        await all_at_fault(world, 1, *at_fault)


async def test_what_is_gone_back_to_and_never_comes_up_is_given_up() -> None:
    world = await a_ready_pool(baseSeconds=5)
    first = asked(world)
    await roll_out(world, "encoder-server:2")
    second = asked(world)
    await all_at_fault(world, 6, second)
    await nothing_comes_up_of(world, first, 5, second)
    assert revisions(world) == [(second, "Rejected"), (first, "Target")], "it may come up still"
    world.now += 3700
    await nothing_comes_up_of(world, first, 5)
    world.now += 3700
    await nothing_comes_up_of(world, first, 10)
    assert revisions(world) == [(second, "Current"), (first, "Rejected")]
    assert (images(world), world.condition()["reason"]) == ({"encoder-server:2"}, "AsExpected")
    told = [each["message"] for each in world.events.values() if each["reason"] == "Rejected"]
    assert f"revision {first}: DeadlineExceeded" in told


async def test_the_one_before_is_gone_back_to_where_the_last_never_comes_up() -> None:
    world = await a_ready_pool(baseSeconds=5)
    first = asked(world)
    await roll_out(world, "encoder-server:2")
    second = asked(world)
    await roll_out(world, "encoder-server:3")
    third = asked(world)
    await all_at_fault(world, 6, third)
    for _ in range(2):
        await nothing_comes_up_of(world, second, 5, third)
        world.now += 3700
    await nothing_comes_up_of(world, second, 12, third)
    assert revisions(world)[0] == (first, "Current")
    assert images(world) == {"encoder-server:1"}
