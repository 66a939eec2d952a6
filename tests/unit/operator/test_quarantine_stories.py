"""Quarantine, whole stories in memory: budgets, modes and hands."""

from __future__ import annotations

import copy

from encoder_operator import vocabulary
from tests.support.memory_world import MemoryWorld, a_ready_pool

RARELY = {"baseSeconds": 300, "maxSeconds": 600}


def mismatching(world: MemoryWorld, *indices: int) -> None:
    for index in range(len(world.pod_objects)):
        if world.label(index) == "true":
            bad = 40 + index if index in indices else 0
            world.server(index).fault = index in indices
            world.count(index, good=120 - bad, bad=bad, media=bad)


def annotate(world: MemoryWorld, index: int, key: str, why: str | None) -> None:
    annotations = world.pod(index)["metadata"]["annotations"]
    if why is None:
        del annotations[key]
    else:
        annotations[key] = why


def labels(world: MemoryWorld) -> list[str]:
    return [world.label(index) for index in range(len(world.pod_objects))]


def reasons(world: MemoryWorld) -> list[str]:
    return [event["reason"] for event in world.events.values()]


async def test_a_spent_budget_is_told_once_and_blocks_no_release() -> None:
    world = await a_ready_pool(replicas=5, quarantine=RARELY)
    for indices in ((0, 1), (0, 1), (0,), (0,)):
        mismatching(world, *indices)
        await world.passes(1, seconds=0.0)
        world.server(1).fault = world.label(1) == "true"
    assert labels(world) == ["true", "false", "true", "true", "true"], "the worst alone"
    told = world.condition("QuarantineWithinBudget")
    assert (told["status"], told["reason"]) == ("False", "BudgetExceeded")
    assert "1 of at most 1" in told["message"]
    assert reasons(world).count("BudgetExceeded") == 1
    for _ in range(4):
        mismatching(world, 0)
        await world.passes(2)
    assert world.record(1)["state"] == "Released"
    assert reasons(world).count("Released") == 1


async def test_one_new_cordon_for_each_evaluation_however_often_it_is_woken() -> None:
    world = await a_ready_pool(replicas=6, quarantine=RARELY)
    mismatching(world, 0, 1)
    for _ in range(2):
        await world.passes(1, seconds=0.0)
    assert labels(world).count("false") == 1
    world.now += 4
    mismatching(world, 0, 1)
    await world.passes(1)
    assert labels(world).count("false") == 2


async def test_min_serving_is_kept() -> None:
    world = await a_ready_pool(quarantine=RARELY | {"minServing": 3})
    mismatching(world, 0)
    await world.passes(2, seconds=0.0)
    assert labels(world) == ["true", "true", "true"]
    assert world.condition("QuarantineWithinBudget")["reason"] == "MinServing"


async def test_observe_says_what_would_be_done_and_writes_to_no_pod() -> None:
    world = await a_ready_pool(quarantine=RARELY | {"mode": "Observe"})
    before = copy.deepcopy(world.pod_objects)
    mismatching(world, 0)
    await world.passes(3, seconds=0.0)
    assert world.pod_objects == before
    assert world.condition()["reason"] == "TokenMismatch"
    told = world.condition("QuarantineWithinBudget")
    assert (told["reason"], told["message"][:23]) == ("TokenMismatch", "mode Observe, not done:")
    would = [event["message"] for event in world.events.values() if "not done" in event["message"]]
    assert len(would) == 1
    assert would[0].startswith(f"{sorted(world.pod_objects)[0]}: mode Observe, not done: Cordoned: TokenMismatch: ")


async def test_mode_cordon_restarts_nothing_and_lets_back_when_the_probe_passes() -> None:
    world = await a_ready_pool(quarantine={"baseSeconds": 5, "maxSeconds": 15, "mode": "Cordon"})
    mismatching(world, 0)
    await world.passes(20)
    assert labels(world)[0] == "false"
    assert world.server(0).boots == 1
    assert world.server(0).obeyed[:2] == ["probe-1-1", "probe-1-2"]
    world.server(0).fault = False
    await world.passes(25)
    assert (labels(world)[0], world.record(0)["state"], world.server(0).boots) == ("true", "Released", 1)


async def test_a_paused_pool_is_told_of_and_not_touched() -> None:
    world = await a_ready_pool()
    assert world.pool is not None
    world.pool["spec"]["management"] = "Paused"
    world.pool["spec"]["replicas"] = 5
    before, objects = copy.deepcopy(world.pod_objects), copy.deepcopy(world.objects)
    mismatching(world, 0)
    annotate(world, 1, vocabulary.ANNOTATION_HAND_CORDON, "to look at it")
    await world.passes(1)
    assert world.pod(0) == before[world.pod(0)["metadata"]["name"]]
    assert world.label(1) == "true"
    assert {key: each["spec"] for key, each in world.objects.items() if "spec" in each} == {
        key: each["spec"] for key, each in objects.items() if "spec" in each
    }
    assert world.condition()["message"].startswith("management is Paused")
    assert world.condition()["reason"] == "TokenMismatch"
    world.pool["spec"]["management"] = "Active"
    await world.passes(1)
    assert world.label(1) == "false"
    assert len(world.pod_objects) == 5


async def test_a_hand_cordon_stands_and_goes_with_its_annotation() -> None:
    world = await a_ready_pool()
    annotate(world, 0, vocabulary.ANNOTATION_HAND_CORDON, "to look at it")
    await world.passes(6)
    assert (world.label(0), world.record(0)["by"], world.server(0).obeyed) == ("false", "person:to look at it", [])
    annotate(world, 0, vocabulary.ANNOTATION_HAND_CORDON, None)
    await world.passes(6)
    assert (world.label(0), world.record(0)["state"]) == ("true", "Released")
    assert (reasons(world).count("Cordoned"), reasons(world).count("Released")) == (1, 1)


async def test_a_hand_release_lifts_one_cordon() -> None:
    world = await a_ready_pool(quarantine=RARELY)
    mismatching(world, 0)
    await world.passes(4)
    assert world.label(0) == "false"
    annotate(world, 0, vocabulary.ANNOTATION_HAND_RELEASE, "I know better")
    await world.passes(4)
    assert (world.label(0), world.record(0)["times"]) == ("true", 1)
    assert vocabulary.ANNOTATION_HAND_RELEASE not in world.pod(0)["metadata"]["annotations"]
    world.now += 60
    mismatching(world, 0)
    await world.passes(2)
    assert (world.label(0), world.record(0)["times"]) == ("false", 2), "it lifts no later cordon"


async def test_an_operator_that_comes_back_amid_a_cordon_changes_nothing() -> None:
    world = await a_ready_pool(quarantine=RARELY)
    mismatching(world, 0)
    await world.passes(8)
    assert (world.label(0), world.record(0)["attempt"]) == ("false", 1)
    assert world.record(0)["nextAttemptAt"] is not None
    before = copy.deepcopy((world.pool, world.pod_objects, world.objects, sorted(world.events)))
    written = world.writes_so_far()
    world.now += 10
    await world.passes(3)
    assert copy.deepcopy((world.pool, world.pod_objects, world.objects, sorted(world.events))) == before
    assert world.writes_so_far() - written <= len(world.events), "events alone are offered again, and refused"
