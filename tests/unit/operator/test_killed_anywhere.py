"""Whole stories, with the operator broken off at every call that it makes: the end is the same, nothing is counted,
told or evicted twice, no budget is exceeded on the way, and another pass changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from encoder_operator import names, vocabulary
from tests.support.interrupted import Step, everywhere
from tests.support.memory_world import MemoryWorld
from tests.support.pool_objects import a_pool
from tests.support.replicas import FINGERPRINT, OTHER_FINGERPRINT

SOON = {"baseSeconds": 1, "maxSeconds": 60, "maxRestarts": 1}

Act = Callable[[MemoryWorld], None]
Test = Callable[[MemoryWorld], bool]


def at_fault(index: int | None, image: str = "encoder-server:1") -> Act:
    """Traffic in which the nth replica of this image mismatches; None: nobody does."""

    def act(world: MemoryWorld) -> None:
        first = f"{asked(image)}-{index}"
        for at, name in enumerate(sorted(world.pod_objects)):
            faulty = name.endswith(first)
            bad = 40 if faulty else 0
            world.server(at).fault = faulty
            if world.label(at) == "true":
                world.count(at, good=120 - bad, bad=bad, media=bad // 5)

    return act


def revision_at_fault(image: str) -> Act:
    """Traffic in which all replicas of this image mismatch."""

    def act(world: MemoryWorld) -> None:
        bad_hash = asked(image)
        for at, name in enumerate(sorted(world.pod_objects)):
            bad = 40 if bad_hash in name else 0
            world.count(at, good=120 - bad, bad=bad, media=bad)

    return act


def probes_fail(image: str) -> Act:
    """The spec asks for this image, and the golden probes of its replicas fail."""

    def act(world: MemoryWorld) -> None:
        assert world.pool is not None
        world.pool["spec"]["image"] = image
        world.live()
        bad_hash = asked(image)
        for name, server in world.servers.items():
            server.probe_passes = bad_hash not in name
        world.live()

    return act


def spec_says(**fields: Any) -> Act:
    def act(world: MemoryWorld) -> None:
        assert world.pool is not None
        world.pool["spec"] |= fields

    return act


def says(key: str, why: str | None) -> Act:
    """A person's annotation on the first replica, or none."""

    def act(world: MemoryWorld) -> None:
        annotations = world.pod(0)["metadata"]["annotations"]
        if why is None:
            annotations.pop(key, None)
        elif world.record(0).get("state") != "Released":
            annotations[key] = why

    return act


def nothing(world: MemoryWorld) -> None:
    """Nobody does anything."""


@cache
def asked(image: str) -> str:
    """The revision of a pool that asks for this image."""
    return names.revision_hash(a_pool(image=image).spec)


def roles(world: MemoryWorld) -> list[tuple[str, str]]:
    assert world.pool is not None
    return [(each["hash"], each["role"]) for each in world.pool["status"].get("revisions", ())]


def serves(image: str, count: int = 3, *, rejected: str | None = None) -> Test:
    """This image serves in full, and the other one is rejected."""

    def done(world: MemoryWorld) -> bool:
        assert world.pool is not None
        wanted = [(asked(image), "Current")]
        wanted += [(asked(rejected), "Rejected")] if rejected else []
        status = world.pool.get("status", {})
        complete = len(world.pod_objects) == count == status.get("servingReplicas")
        return complete and roles(world) == wanted and world.condition()["reason"] == "AsExpected"

    return done


def first_is(label: str, state: str) -> Test:
    return lambda world: (world.label(0), world.record(0).get("state")) == (label, state)


def drifted_teacher(world: MemoryWorld) -> None:
    """The first replica has drifted and comes up alone; when it has taught, the others come up too."""
    taught = any("fingerprint" in each for each in (world.pool or {}).get("status", {}).get("revisions", ()))
    for at in range(len(world.servers)):
        world.server(at).fingerprint = OTHER_FINGERPRINT if at == 0 else FINGERPRINT
        world.server(at).answers = at == 0 or taught


def _up(world: MemoryWorld, at: int) -> bool:
    return bool(world.pod(at)["status"]["conditions"][0]["status"] == "True")


def majority_serves(world: MemoryWorld) -> bool:
    return len(world.pod_objects) == 3 and [_up(world, at) for at in range(3)] == [False, True, True]


STORIES: dict[str, tuple[Step, ...]] = {
    "cordon, restart, probe, release": (
        Step(meanwhile=at_fault(0), done=first_is("false", "Cordoned")),
        Step(meanwhile=at_fault(None), done=lambda world: first_is("true", "Released")(world) and _up(world, 0)),
        Step(meanwhile=nothing, done=serves("encoder-server:1")),
    ),
    "a second attempt, then eviction": (
        Step(meanwhile=at_fault(0), done=lambda world: len(world.evicted) == 1),
        Step(meanwhile=at_fault(None), done=serves("encoder-server:1")),
    ),
    "replacements repeat the fault": (
        Step(meanwhile=at_fault(0, "encoder-server:2"), done=serves("encoder-server:1", rejected="encoder-server:2")),
    ),
    "what serves is at fault itself": (
        Step(
            meanwhile=revision_at_fault("encoder-server:2"),
            done=serves("encoder-server:1", rejected="encoder-server:2"),
        ),
    ),
    "a rollout to what is at fault": (
        Step(
            meanwhile=probes_fail("encoder-server:2"),
            done=serves("encoder-server:1", rejected="encoder-server:2"),
        ),
    ),
    "a cordon by hand, and a release by hand": (
        Step(
            meanwhile=says(vocabulary.ANNOTATION_HAND_CORDON, "to look at it"),
            done=first_is("false", "Cordoned"),
        ),
        Step(meanwhile=says(vocabulary.ANNOTATION_HAND_CORDON, None), done=first_is("true", "Released")),
        Step(meanwhile=at_fault(0), done=first_is("false", "Cordoned")),
        Step(meanwhile=says(vocabulary.ANNOTATION_HAND_RELEASE, "it is good"), done=first_is("true", "Released")),
        Step(meanwhile=at_fault(None), done=serves("encoder-server:1")),
    ),
    "more replicas, fewer, and another image": (
        Step(meanwhile=spec_says(replicas=4), done=serves("encoder-server:1", 4)),
        Step(meanwhile=spec_says(replicas=2), done=serves("encoder-server:1", 2)),
        Step(meanwhile=spec_says(image="encoder-server:2"), done=serves("encoder-server:2", 2)),
    ),
}


# They begin when encoder-server:2 serves.
WITH_A_WAY_BACK = ("replacements repeat the fault", "what serves is at fault itself")


@pytest.mark.parametrize("name", STORIES)
async def test_broken_off_at_any_call_a_story_ends_as_it_would_have(name: str) -> None:
    world = MemoryWorld(quarantine=SOON)
    await world.passes(6)
    if name in WITH_A_WAY_BACK:
        spec_says(image="encoder-server:2")(world)
        await world.passes(6)
    world.now += 60
    telling = await everywhere(STORIES[name], world)
    assert telling.broken > 50


async def test_broken_off_at_any_call_a_drifted_teacher_is_overruled() -> None:
    story = (Step(meanwhile=drifted_teacher, done=majority_serves),)
    telling = await everywhere(story, MemoryWorld(quarantine=SOON), brief=frozenset({"ReferenceSuspect"}))
    assert telling.broken > 50
