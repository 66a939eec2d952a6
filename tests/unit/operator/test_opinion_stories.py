"""Opinions, whole stories in memory: peers that answer, fail, fall silent or die, with the operator killed at every
write."""

from __future__ import annotations

import copy
from collections import Counter

import pytest

from encoder_operator import vocabulary
from encoder_operator.observation import Size
from encoder_operator.orders import parse_question
from tests.support.memory_world import MemoryWorld, Probing, a_ready_pool

QUIET = {"baseSeconds": 300, "maxSeconds": 600}
WIDE = Size(modality="image", width=900, height=30)


def met_by(world: MemoryWorld, *indices: int) -> None:
    """The traffic of the last half minute: these replicas have met what fails on them."""
    for index in range(len(world.pod_objects)):
        if world.label(index) == "true":
            bad = 40 + index if index in indices else 0
            world.count(index, good=120 - bad, bad=bad, media=bad)


def at_fault(world: MemoryWorld, *indices: int) -> None:
    """These replicas, and no others, fail at one size."""
    for index in range(len(world.pod_objects)):
        world.server(index).fault = index in indices


async def passes(world: MemoryWorld, count: int, *met: int) -> None:
    for _ in range(count):
        met_by(world, *met)
        await world.passes(1)


def labels(world: MemoryWorld) -> list[str]:
    return [world.label(index) for index in range(len(world.pod_objects))]


def asked(world: MemoryWorld, index: int) -> list[str]:
    """The questions that the nth replica has taken up."""
    return [each for each in world.server(index).obeyed if each.startswith("opinion-")]


async def test_a_bad_replica_is_cordoned_once_a_peer_has_passed_what_it_fails() -> None:
    world = await a_ready_pool(quarantine=QUIET)
    at_fault(world, 0)
    await passes(world, 1, 0)
    assert (labels(world), world.condition()["reason"]) == (["true"] * 3, "NoEvidence")
    assert "has yet to probe the sizes that failed" in world.condition("IntegrityHealthy")["message"]
    await passes(world, 1, 0)
    peer = sorted(world.pod_objects)[1]
    assert labels(world) == ["false", "true", "true"]
    assert world.record(0)["message"].endswith(f"{peer} passed a probe of the sizes that failed")
    assert [len(asked(world, index)) for index in range(3)] == [0, 1, 0]
    told = [each for each in world.events.values() if each["reason"] == "ProbeOrdered" and peer in each["message"]]
    assert len(told) == 1


async def test_a_size_that_fails_on_all_is_the_revisions_and_stays_so() -> None:
    world = await a_ready_pool(quarantine=QUIET)
    at_fault(world, 0, 1, 2)
    await passes(world, 2, 0)
    assert world.condition()["reason"] == "RevisionFault"
    assert world.condition()["message"].startswith("image 640x480 fails on vision-")
    before = copy.deepcopy((world.pool, world.pod_objects, sorted(world.events)))
    for _ in range(40):
        await passes(world, 1, 0)
        assert (world.condition()["reason"], labels(world)) == ("RevisionFault", ["true"] * 3)
    assert (world.pool, world.pod_objects, sorted(world.events)) == before, "a later pass writes nothing"
    assert sum(len(asked(world, index)) for index in range(3)) == 1
    assert [server.boots for server in world.servers.values()] == [1, 1, 1]


async def test_traffic_ceased_the_revision_is_blamed_no_more() -> None:
    world = await a_ready_pool()
    at_fault(world, 0, 1, 2)
    await passes(world, 2, 0)
    at_fault(world)
    await passes(world, 1)
    assert world.condition()["reason"] == "AsExpected", "the peer's last probe alone is nobody's fault"


@pytest.mark.parametrize("silence", [each for each in Probing if each is not Probing.ANSWERS])
async def test_where_no_peer_answers_a_bad_replica_is_cordoned_in_the_end(silence: Probing) -> None:
    world = await a_ready_pool(quarantine=QUIET)
    at_fault(world, 0)
    for index in (1, 2):
        world.server(index).probing = silence
    needed = 0
    while world.label(0) == "true":
        await passes(world, 1, 0)
        needed += 1
        assert needed <= 2 * (30 + 120) + 5
    assert labels(world) == ["false", "true", "true"]
    assert "did not answer" in world.record(0)["message"]
    assert all(len(asked(world, index)) <= 1 for index in (1, 2)), "each is asked once"
    assert all(world.server(index).boots <= 2 for index in (1, 2))


@pytest.mark.parametrize("silence", [each for each in Probing if each is not Probing.ANSWERS])
async def test_where_one_does_not_answer_the_next_is_asked(silence: Probing) -> None:
    world = await a_ready_pool(quarantine=QUIET)
    at_fault(world, 0, 1, 2)
    world.server(1).probing = silence
    for _ in range(160):
        await passes(world, 1, 0)
    assert (labels(world), world.condition()["reason"]) == (["true"] * 3, "RevisionFault")
    assert len(asked(world, 2)) == 1


async def test_a_peer_that_is_not_read_for_a_while_has_not_fallen_silent() -> None:
    world = await a_ready_pool(replicas=2, quarantine=QUIET)
    at_fault(world, 0, 1)
    await passes(world, 50, 0)
    world.server(1).heard = False
    await passes(world, 3, 0)
    assert labels(world) == ["true", "true"]
    world.server(1).heard = True
    await passes(world, 1, 0)
    assert world.condition()["reason"] == "RevisionFault"


async def test_newer_violations_do_not_ask_anew() -> None:
    world = await a_ready_pool(quarantine=QUIET)
    at_fault(world, 0)
    world.server(1).probing = Probing.UNHEARD
    await passes(world, 1, 0)
    world.server(0).size = WIDE
    world.server(1).probing = Probing.ANSWERS
    await passes(world, 2, 0)
    assert labels(world) == ["false", "true", "true"]
    assert sum(len(asked(world, index)) for index in range(3)) == 1


async def test_of_two_bad_replicas_each_is_asked_about_once() -> None:
    world = await a_ready_pool(replicas=4, quarantine=QUIET | {"maxCordoned": 2})
    at_fault(world, 0, 1)
    for turn in range(12):
        for index in range(4):
            worse = 20 if index == turn % 2 else 0
            bad = 40 + worse if index in (0, 1) else 0
            if world.label(index) == "true":
                world.count(index, good=120 - bad, bad=bad, media=bad)
        await world.passes(1)
    assert labels(world) == ["false", "false", "true", "true"]
    subjects = Counter(each.rpartition("-")[0] for index in range(4) for each in asked(world, index))
    assert list(subjects.values()) == [1, 1]


async def test_of_two_that_meet_what_fails_on_all_neither_is_cordoned_and_the_questions_end() -> None:
    world = await a_ready_pool(replicas=4, quarantine=QUIET)
    at_fault(world, 0, 1, 2, 3)
    await passes(world, 10, 0, 1)
    before = copy.deepcopy((world.pool, world.pod_objects, sorted(world.events)))
    await passes(world, 30, 0, 1)
    assert (world.pool, world.pod_objects, sorted(world.events)) == before
    assert (labels(world), world.condition()["reason"]) == (["true"] * 4, "RevisionFault")


async def test_a_peer_that_was_asked_climbs_its_own_ladder_later() -> None:
    world = await a_ready_pool()
    at_fault(world, 0)
    await passes(world, 2, 0)
    at_fault(world)
    await passes(world, 8)
    assert world.record(0)["state"] == "Released"
    world.now += 60
    at_fault(world, 1)
    await passes(world, 3, 1)
    assert labels(world) == ["true", "false", "true"]
    at_fault(world)
    await passes(world, 8)
    assert (world.label(1), world.record(1)["state"]) == ("true", "Released")
    assert vocabulary.ANNOTATION_ORDER_PROBE not in world.pod(1)["metadata"]["annotations"]


async def test_a_hand_cordoned_or_skipped_peer_is_left_alone() -> None:
    world = await a_ready_pool(replicas=4, quarantine=QUIET)
    world.pod(1)["metadata"]["annotations"][vocabulary.ANNOTATION_SKIP] = "mine"
    world.pod(2)["metadata"]["annotations"][vocabulary.ANNOTATION_HAND_CORDON] = "to look at it"
    at_fault(world, 0)
    await passes(world, 3, 0)
    assert [len(asked(world, index)) for index in range(4)] == [0, 0, 0, 1]
    assert world.label(0) == "false"


async def test_a_paused_pool_asks_nobody() -> None:
    world = await a_ready_pool()
    assert world.pool is not None
    world.pool["spec"]["management"] = "Paused"
    before = copy.deepcopy(world.pod_objects)
    at_fault(world, 0)
    met_by(world, 0)
    await world.passes(3, seconds=0.0)
    assert world.pod_objects == before
    assert world.condition()["reason"] == "TokenMismatch"


@pytest.mark.parametrize("after_write", [False, True], ids=["before the write", "after the write"])
@pytest.mark.parametrize("kill_at", range(1, 12))
@pytest.mark.parametrize("everywhere", [False, True], ids=["one is bad", "the size fails on all"])
async def test_killed_at_any_write_it_asks_once_and_decides_the_same(
    everywhere: bool, kill_at: int, after_write: bool
) -> None:
    world = await a_ready_pool(quarantine=QUIET)
    at_fault(world, *((0, 1, 2) if everywhere else (0,)))
    met_by(world, 0)
    await world.passes_with_a_kill(6, kill_at, after_write=after_write)
    assert sum(len(asked(world, index)) for index in range(3)) == 1
    if everywhere:
        assert (labels(world), world.condition()["reason"]) == (["true"] * 3, "RevisionFault")
    else:
        assert (labels(world), world.record(0)["times"]) == (["false", "true", "true"], 1)


async def test_a_question_is_for_the_boot_that_is_asked() -> None:
    world = await a_ready_pool(quarantine=QUIET)
    at_fault(world, 0)
    met_by(world, 0)
    world.server(1).probing = Probing.UNHEARD
    await world.passes(1)
    world.server(1).probing = Probing.ANSWERS
    world.server(1).boot()
    await passes(world, 3, 0)
    question = parse_question(world.pod(1)["metadata"]["annotations"][vocabulary.ANNOTATION_ORDER_PROBE])
    assert question is not None
    assert question.boot_id != world.server(1).boot_id
    assert (len(asked(world, 1)), len(asked(world, 2)), world.label(0)) == (0, 1, "false")
