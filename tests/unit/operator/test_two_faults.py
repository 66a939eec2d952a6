"""Two faults at once: whatever goes wrong while something else is being repaired, nobody need come and help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from encoder_operator import names
from encoder_operator.errors import ForeignObjectError
from encoder_operator.spec import parse
from tests.support import memory_world
from tests.support.memory_world import MemoryWorld
from tests.support.replicas import OTHER_FINGERPRINT

IN_TRAFFIC = {"baseSeconds": 2, "maxSeconds": 6, "maxRestarts": 100}


async def a_ready_pool(replicas: int = 3, **quarantine: Any) -> MemoryWorld:
    return await memory_world.a_ready_pool(replicas=replicas, quarantine=IN_TRAFFIC | quarantine)


async def go_on(
    world: MemoryWorld, passes: int, *faulty: int, meanwhile: Callable[[int], None] = lambda number: None
) -> None:
    """Passes in which these replicas mismatch in traffic and no more than one is cordoned."""
    for number in range(passes):
        for index in range(len(world.pod_objects)):
            bad = 40 + index if index in faulty else 0
            world.server(index).fault = index in faulty
            if world.label(index) == "true":
                world.count(index, good=120 - bad, bad=bad, media=bad)
        meanwhile(number)
        await world.passes(1)
        assert labels(world).count("false") <= 1


async def until_whole(world: MemoryWorld, *, meanwhile: Callable[[int], None] = lambda number: None) -> None:
    """Passes in which nobody mismatches any more, until the first replica serves again."""
    for number in range(40):
        await go_on(world, 1, meanwhile=lambda _, number=number: meanwhile(number))  # type: ignore[misc]
        if is_whole(world):
            return
    pytest.fail(f"still {world.record(0)}, {labels(world)}, {world.condition()['message']}")


def labels(world: MemoryWorld) -> list[str]:
    return [world.label(index) for index in range(len(world.pod_objects))]


def is_whole(world: MemoryWorld, times: int = 1) -> bool:
    """The first replica was cordoned so often and serves again, as all others do."""
    released = (world.record(0).get("state"), world.record(0).get("times")) == ("Released", times)
    return released and set(labels(world)) == {"true"} and world.condition()["reason"] == "AsExpected"


async def test_one_mismatches_while_another_is_held_after_its_restart() -> None:
    world = await a_ready_pool()
    world.server(1).boot()
    world.server(1).fingerprint = OTHER_FINGERPRINT
    world.live()
    await go_on(world, 6, 0)
    assert labels(world) == ["false", "true", "true"], "the third vouches"
    assert world.pool is not None
    assert (world.pool["status"]["heldReplicas"], world.pool["status"]["servingReplicas"]) == (1, 1)
    await go_on(world, 30)
    assert world.record(0)["state"] == "Released"
    assert world.condition()["reason"] == "FingerprintDrift", "the held one is named"
    world.server(1).fingerprint = world.server(0).fingerprint
    world.server(1).boot()
    world.live()
    await go_on(world, 2)
    assert is_whole(world)


async def test_a_rollout_to_a_faulty_revision_while_a_replica_is_cordoned() -> None:
    world = await a_ready_pool()
    await go_on(world, 3, 0)
    assert world.label(0) == "false"
    assert world.pool is not None
    world.pool["spec"]["image"] = "encoder-server:2"
    bad = names.revision_hash(parse(world.pool).spec)

    def probes_fail(number: int) -> None:
        for name, server in world.servers.items():
            server.probe_passes = bad not in name
        world.live()

    def first() -> int:
        return next(index for index, name in enumerate(sorted(world.servers)) if bad not in name)

    for _ in range(20):
        await go_on(world, 1, first(), meanwhile=probes_fail)
    roles = [(each["hash"], each["role"]) for each in world.pool["status"]["revisions"]]
    assert (bad, "Rejected") in roles
    assert labels(world) == ["false", "true", "true"]
    await until_whole(world, meanwhile=probes_fail)


async def test_counters_that_are_lost_amid_a_cordon_delay_nothing_but_new_cordons() -> None:
    world = await a_ready_pool()
    await go_on(world, 2, 0)
    assert world.label(0) == "false"
    world.evidence_is_lost = True
    await until_whole(world)
    assert world.condition("IntegrityHealthy")["reason"] == "NoEvidence"
    await go_on(world, 5, 1)
    assert world.label(1) == "true", "nobody is blamed without evidence"
    world.evidence_is_lost = False
    await go_on(world, 10, 1)
    assert world.label(1) == "false"
    await go_on(world, 30)
    assert is_whole(world)


async def test_of_two_at_fault_one_is_out_at_a_time_and_both_come_back() -> None:
    world = await a_ready_pool(replicas=5, maxCordoned=1)
    cured: set[int] = set()
    for _ in range(60):
        cured |= {index for index in (0, 1) if world.server(index).boots > 1}
        await go_on(world, 1, *({0, 1} - cured))
    assert cured == {0, 1}
    assert is_whole(world)
    assert world.record(1)["state"] == "Released"


@pytest.mark.parametrize("at", range(11))
@pytest.mark.parametrize("boots", [1, 2])
async def test_dead_and_up_again_on_any_rung(at: int, boots: int) -> None:
    world = await a_ready_pool()

    def dies(number: int) -> None:
        if number in range(at, at + boots):
            world.server(0).boot()
            world.live()

    await go_on(world, 8, 0, meanwhile=dies)
    await until_whole(world, meanwhile=lambda number: dies(number + 8))
    assert world.evicted == []
    restarts = [each for each in world.server(0).obeyed if each.startswith("restart")]
    assert len(restarts) == len(set(restarts)), "no restart is obeyed twice"


@pytest.mark.parametrize("pods_linger", [False, True])
@pytest.mark.parametrize("at", [2, 3, 5])
async def test_the_pool_is_deleted_and_made_anew_amid_a_cordon(at: int, pods_linger: bool) -> None:
    world = await a_ready_pool()
    await go_on(world, at, 0)
    assert world.pool is not None
    pool, world.pool = world.pool, None
    await world.passes(1)
    world.pool = {key: value for key, value in pool.items() if key != "status"}
    world.pool["metadata"] = {**pool["metadata"], "uid": "another"}
    with pytest.raises(ForeignObjectError):
        await world.passes(1)
    assert world.condition()["reason"] == "InvalidSpec", "its children are still another's"
    world.objects.clear()
    if not pods_linger:
        world.live()
    await go_on(world, 40)
    assert set(labels(world)) == {"true"}
    assert (world.condition()["status"], world.condition()["reason"]) == ("True", "AsExpected")
    assert bool(world.record(0)) == pods_linger


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("at", range(2, 11))
async def test_the_operators_clock_jumps_on_any_rung(at: int, stays: bool, ahead: float) -> None:
    world = await a_ready_pool()

    def jumps(number: int) -> None:
        world.clock_is_ahead = ahead if number == at or (stays and number > at) else 0.0

    await go_on(world, 8, 0, meanwhile=jumps)
    await until_whole(world, meanwhile=lambda number: jumps(number + 8))
    assert world.evicted == []


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
async def test_a_clock_that_jumped_keeps_nobody_in_service_who_is_at_fault_later(ahead: float) -> None:
    world = await a_ready_pool()
    await go_on(world, 2, 0)
    assert world.label(0) == "false"
    world.clock_is_ahead = ahead
    await go_on(world, 2, 0)
    world.clock_is_ahead = 0.0
    await until_whole(world)
    world.now += 60
    await go_on(world, 5, 1)
    assert world.label(1) == "false"
